"""Texts with a secret in them, and what is left of each: for what pages send and for what the server makes of it.

Neither a page nor the server may let `PLANTED` through. What else they make of a text may differ in quotes and in what
an address encodes; the values here are the server's.
"""

from __future__ import annotations

__all__ = ["CORPUS", "KEPT", "PLANTED"]

PLANTED = "hunter2"
CORPUS = {
    '{"password":"hunter2","a":1}': '{"password":"[redacted]","a":1}',
    '{"a":{"card":{"number":"hunter2","x":["]}"]}},"b":2}': '{"a":{"card":"[redacted]"},"b":2}',
    '{"apiKey" : "hunter2"}': '{"apiKey" : "[redacted]"}',
    '{"IBAN":["hunter2"],"z":1}': '{"IBAN":"[redacted]","z":1}',
    r'{"body":"{\"password\":\"hunter2\",\"n\":1}","z":3}': r'{"body":"{\"password\":\"[redacted]\",\"n\":1}","z":3}',
    r'{"token":"a\\\"hunter2","b":1}': '{"token":"[redacted]","b":1}',
    '{"password":"hunter2': '{"password":"[redacted]"',
    '{"cards":[{"n":"hunter2': '{"cards":"[redacted]"',
    "a=1&user%5Bpassword%5D=hunter2&b=2": "a=1&user%5Bpassword%5D=[redacted]&b=2",
    "login { password: 'hunter2', user: 1 }": "login { password: [redacted], user: 1 }",
    "the secret: hunter2": "the secret: [redacted]",
    "Authorization: Basic hunter2": "Authorization: [redacted]",
    "a=1; token=hunter2; b=2": "a=1; token=[redacted]; b=2",
    "password = hunter2 next": "password = [redacted] next",
    "the key\t=  'hunter2 hunter2' b": "the key\t=  '[redacted]' b",
    "auth=Basic hunter2 b": "auth=[redacted] b",
    "Bearer hunter2hunter2": "[redacted]",
    "eyJhbGciOi.eyJzdWhunter2.sig": "[redacted]",
    "key zrv_sk_hunter2 x": "key [redacted] x",
    "ctk_hunter2 zdk_hunter2": "[redacted] [redacted]",
    '--x\r\nContent-Disposition: form-data; name="cvv"\r\n\r\nhunter2\r\n--x--': (
        '--x\r\nContent-Disposition: form-data; name="cvv"\r\n\r\n[redacted]\r\n--x--'
    ),
    r'{"escaped\"token":"planted-\"hunter2","b":1}': r'{"escaped\"token":"[redacted]","b":1}',
    r'{"token\"x":"planted-\"hunter2","b":1}': r'{"token\"x":"[redacted]","b":1}',
    r'{"token\\":"hunter2\\","b":1}': r'{"token\\":"[redacted]","b":1}',
    r'{"m":"{\"a\\\"key\":\"x\\\"hunter2\"}","b":1}': r'{"m":"{\"a\\\"key\":\"[redacted]\"}","b":1}',
    r'cut\"token":{"n":"]}\"hunter2"},"b":1': r'cut\"token":\"[redacted]\","b":1',
    r'password="hun\"hunter2" b': 'password="[redacted]" b',
    r"password='hun\'hunter2' b": "password='[redacted]' b",
    r'"password=\"a\\\"hunter2\" b"': r'"password=\"[redacted]\" b"',
    r'{ password: "hun\"hunter2", user: 1 }': "{ password: [redacted], user: 1 }",
    r'"{ password: \"hunter2\", user: 1 }"': '"{ password: [redacted], user: 1 }"',
    "{ token: `hunter2 hunter2`, user: 1 }": "{ token: [redacted], user: 1 }",
    "GET https://ann:hunter2@x.test/a failed": "GET https://[redacted]@x.test/a failed",
    '{"u":"https:\\/\\/ann:hunter2@x.test"}': '{"u":"https:\\/\\/[redacted]@x.test"}',
    "postgres://ann:p@hunter2@db:5432/x, mail a@b.test": "postgres://[redacted]@db:5432/x, mail a@b.test",
    'data-token="hunter2 hunter2"': 'data-token="[redacted]"',
    # each character of a name may be a number in JSON, and each byte in an address or a form
    r'{"p\u0061ssword":"hunter2","a":1}': '{"password":"[redacted]","a":1}',
    r'{"P\u0041SS\u0057ord" : {"n":"hunter2"},"a":1}': '{"PASSWord" : "[redacted]","a":1}',
    r'{"\u0063\u0061\u0072\u0064":["hunter2"],"a":1}': '{"card":"[redacted]","a":1}',
    r'{"\u0070\u0061\u0073\u0073":"hunter2': '{"pass":"[redacted]"',
    r'{"m":"{\"p\\u0061ssword\":\"hunter2\",\"n\":1}","z":3}': r'{"m":"{\"password\":\"[redacted]\",\"n\":1}","z":3}',
    r'{"m":"{\u0022pass\u0022:\u0022hunter2\u0022,\u0022n\u0022:1}"}': r'{"m":"{\"pass\":\"[redacted]\",\"n\":1}"}',
    r'{"m":"{\"o\":\"{\\u0022p\\\\u0061ss\\u0022:\\u0022hunter2\\u0022}\"}","z":3}': (
        r'{"m":"{\"o\":\"{\\\"pass\\\":\\\"[redacted]\\\"}\"}","z":3}'
    ),
    r'{"next":"https://x.test/a?b=1\u0026t\u006fken\u003dhunter2\u0026c=2"}': (
        '{"next":"https://x.test/a?b=1&token=[redacted]&c=2"}'
    ),
    r'{"t":"\u0042earer hunter2hunter2","z":3}': '{"t":"[redacted]","z":3}',
    r"login { p\u0061ssword: 'hunter2', user: 1 }": "login { password: [redacted], user: 1 }",
    "p%61ssword=hunter2&b=2": "password=[redacted]&b=2",
    "a=1&%50%41%53%53word=hunter2&b=2": "a=1&PASSword=[redacted]&b=2",
    "user%5Bp%61ssword%5D=hunter2&b=2": "user%5Bpassword%5D=[redacted]&b=2",
    "https://x.test/a?acc%65ss_tok%65n=hunter2&z=1#id_%74oken=hunter2": (
        "https://x.test/a?access_token=[redacted]&z=1#id_token=[redacted]"
    ),
    "https://x.test/a?q=%7B%22password%22%3A%22hunter2%22%2C%22n%22%3A%22%C3%A9%22%7D&z=1": (
        "https://x.test/a?q=%7B%22password%22%3A%22[redacted]%22%2C%22n%22%3A%22%C3%A9%22%7D&z=1"
    ),
    "https://x.test/a?next=%2Flogin%3Ftoken%3Dhunter2%26x%3D1&z=1": (
        "https://x.test/a?next=%2Flogin%3Ftoken%3D[redacted]%26x%3D1&z=1"
    ),
    "https://x.test/a?next=%2Flogin%3Fback%3D%252Fa%253Ftoken%253Dhunter2&z=1": (
        "https://x.test/a?next=%2Flogin%3Fback%3D%252Fa%253Ftoken%253D[redacted]&z=1"
    ),
    "https://x.test/#%7B%22token%22%3A%22hunter2%22%7D": "https://x.test/#%7B%22token%22%3A%22[redacted]%22%7D",
    # as browsers encode what a page puts into an address without encoding it
    "https://x.test/a?{%22password%22:%22hunter2%22,%22a%22:%22x=y%22}": (
        "https://x.test/a?{%22password%22:%22[redacted]%22,%22a%22:%22x=y%22}"
    ),
    "/a?q={%22a%22:%22%20%22,%22user%22:{%22p%61ss%22:%22hunter2%22}}&z=1": (
        "/a?q={%22a%22:%22%20%22,%22user%22:{%22pass%22:%22[redacted]%22}}&z=1"
    ),
    r"https://x.test/a?{%22m%22:%22{\%22key\%22:\%22hunter2\%22,\%22n\%22:1}%22}": (
        r"https://x.test/a?{%22m%22:%22{\%22key\%22:\%22[redacted]\%22,\%22n\%22:1}%22}"
    ),
    r'{"m":"say \"a%20b?token%3Dhunter2\" now","z":1}': r'{"m":"say \"a%20b?token%3D[redacted]\" now","z":1}',
    "data=%7B%22p%5Cu0061ssword%22%3A%22hunter2%22%7D&b=2": "data=%7B%22password%22%3A%22[redacted]%22%7D&b=2",
    '{"form":"a=1&p%61ssword=hunter2&b=2","z":1}': '{"form":"a=1&password=[redacted]&b=2","z":1}',
    r'{"form":"next=%2Flogin%3Ft\u006fken%3Dhunter2","z":1}': '{"form":"next=%2Flogin%3Ftoken%3D[redacted]","z":1}',
    "next=https%3A%2F%2Fann%3Ahunter2%40x.test%2F&z=1": "next=https%3A%2F%2F[redacted]%40x.test%2F&z=1",
    "auth=Basic%20hunter2&q=Bearer%20hunter2hunter2&z=1": "auth=[redacted]&q=[redacted]&z=1",
}
KEPT = (
    "TypeError: x is not defined at https://localhost/key.js:10:5",
    'Cannot read properties of undefined (reading "key")',
    '{"name":"Ann","total":12.5,"items":[1,2]}',
    "https://localhost/passport/17?page=2",
    "at run (https://localhost/app?token=[redacted]:10:5)",
    "authority://x",
    "https://localhost:8080/a@b:c@d",
    "mail to ann:hunter@x.test",
    "100% done, 5%25 left, 7% to go",
    "https://x.test/a?q=a%20b%26c&z=%C3%A9",
    r'{"name":"J\u0061n\u00e9","m":"{\u0022n\u0022:1}"}',
    r"C:\u0061bc and %zz and %u0061",
)
