"""JSON of TDMQ for CKafka (Tencent Cloud)."""
