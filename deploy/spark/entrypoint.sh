#!/bin/sh
# The entry point of a Spark pod. Spark passes `driver` or `executor` as the argument, and everything else in
# variables. Any other argument is a command.
set -eu

case "${1:-}" in
driver)
    shift
    set -- "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client "$@"
    ;;
executor)
    set -- -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    # Java options are SPARK_JAVA_OPT_0 and so on; prepending them in reverse keeps their order.
    for number in $(env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]\{1,\}\)=.*/\1/p' | sort -rn); do
        set -- "$(printenv "SPARK_JAVA_OPT_$number")" "$@"
    done
    set -- "$JAVA_HOME/bin/java" "$@"
    ;;
esac
exec tini -s -- "$@"
