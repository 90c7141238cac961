"""Messages of Debezium's own connector for MySQL and MariaDB, as Kafka Connect's converters write them."""
