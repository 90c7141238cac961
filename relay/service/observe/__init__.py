"""What is known of a run, and how it is shown: status, metrics, HTTP."""
