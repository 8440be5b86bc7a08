"""The backend that `forward` calls: bare aiohttp, a fixed JSON answer of about 1 KB. argv: PORT"""

import sys

from aiohttp import web

FILLS = b",".join(
    b'{"seq":%d,"px":182.25,"qty":10,"venue":"XNAS","liq":"add","ts":"2026-01-02T14:30:%02dZ"}' % (i, i)
    for i in range(11)
)
BODY = (
    b'{"ok":true,"order":{"ticker":"ACME","quantity":100,"side":"buy"},"fills":[' + FILLS + b'],"marker":"backend-1k"}'
)


async def handle(request):
    await request.read()
    return web.Response(body=BODY, content_type="application/json")


app = web.Application()
app.router.add_post("/", handle)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
