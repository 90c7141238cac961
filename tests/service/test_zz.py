import pytest, time
from relay.records import ConsumerRecord
from collections import Counter
async def test_x(kafka, make_config, echo, run_relay):
    t = await kafka.topic(4)
    await kafka.produce(t, [ConsumerRecord("", i % 4, 0, 1, None, b"x"*400) for i in range(38000)])
    t0=time.time(); n=0; bad=0
    while time.time()-t0 < 60:
        n+=1
        f = await kafka.read(t)
        c = Counter(r.partition for r in f)
        if len(f) != 38000:
            bad+=1; print(n, c, await kafka.length(t))
    print("reads", n, "bad", bad)
