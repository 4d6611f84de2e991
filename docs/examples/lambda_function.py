"""MCP over HTTP, as a function that is called with each request: no event loop. Of docs/write-a-transport.md.

What a handler may wait for is another request, and the time: it is run by a scheduler that all requests share.
"""

import base64
import secrets
import time

from mcp_sansio import Body, CallCancelled, CallReceived, End, Registry, Runtime, Server, StoreNeeded
from mcp_sansio.testing import Scheduler


class Function:
    """Serves `registry`. ``function(event, context)`` is what a gateway calls."""

    def __init__(self, registry, **options):
        self.scheduler = Scheduler()
        runtime = Runtime(now=time.monotonic, token_bytes=secrets.token_bytes, event=self.scheduler.event)
        self.server = Server(registry, runtime=runtime, **options)

    def __call__(self, event, context=None):
        request = Request(self, event)
        parts = []
        while not parts or not isinstance(parts[-1], End):
            request.advance()
            parts += request.engine.data_to_send() or time.sleep(0.001) or []
        body = b"".join(part.data for part in parts if isinstance(part, Body))
        headers = dict(parts[0].headers)
        return {"statusCode": parts[0].status, "headers": headers, "body": body.decode()}


class Request:
    """One request, and the response as far as it has come."""

    def __init__(self, function, event):
        self.scheduler, self.tasks = function.scheduler, {}
        self.engine = function.server.http_transaction(request=event)
        query, body = event.get("rawQueryString", ""), event.get("body") or ""
        data = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()
        method = event["requestContext"]["http"]["method"]
        self.engine.receive_request(method, f"{event['rawPath']}?{query}", event["headers"])
        self.engine.receive_body(data)
        self.engine.receive_end()

    def advance(self):
        """Do what can be done by now."""
        due, now = self.engine.next_deadline(), time.monotonic()
        if due is not None and due <= now:
            self.engine.handle_timeout(now)
        self.scheduler.run()
        while events := self.engine.events():
            for event in events:
                if isinstance(event, CallReceived):
                    self.tasks[event.call] = self.scheduler.spawn(event.run())
                elif isinstance(event, StoreNeeded):
                    self.scheduler.spawn(event.run())
                elif isinstance(event, CallCancelled):
                    self.scheduler.cancel(self.tasks[event.call])
            self.scheduler.run()


handler = Function(Registry("function", "1.0"))
