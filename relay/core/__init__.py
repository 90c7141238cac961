"""Translation of records without I/O: pipeline, translator, error policies, dead letters, detection."""
