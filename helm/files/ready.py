"""Ask every pod behind a headless service at /readyz, for a minute at most; arguments: its name and port."""

import http.client
import socket
import sys
import time

HOST, PORT = sys.argv[1], int(sys.argv[2])
DEADLINE = time.monotonic() + 60


def unready() -> list[str]:
    """Give what is in the way, a line for each pod; nothing if all are ready."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(HOST, PORT, type=socket.SOCK_STREAM)}
    except OSError as error:
        return [f"{HOST}: {error}"]
    return [f"{address}: {answer}" for address in sorted(found) if (answer := ask(address))]


def ask(address: str) -> str:
    """Give the answer of a pod that is not ready."""
    connection = http.client.HTTPConnection(address, PORT, timeout=5)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        text = response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()
    if response.status == http.HTTPStatus.OK:
        sys.stdout.write(f"{address} {text}\n")
        return ""
    return f"{response.status} {text}"


while problems := unready():
    if time.monotonic() > DEADLINE:
        sys.exit("\n".join(problems))
    time.sleep(1)
