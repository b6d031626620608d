#!/usr/bin/env python3
"""Writes vectors.json: secrets as programs other than ours spell them.

    python3 vectors.py > vectors.json        # with openssl, base64, od and perl
"""
import base64, binascii, html, json, subprocess, urllib.parse

SECRETS = [
    "hunter2",
    "correct horse battery staple",
    'a"b\\c d&e/\u00fc<>\'+=%41~',
    "p\u00e4ss\u65e5\u672c\U0001f511",
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.~0123456789abcdef",
]


def run(text, *command):
    return subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()


def lower_percent(s):
    quoted, out, i = urllib.parse.quote(s, safe=""), "", 0
    while i < len(quoted):
        n = 3 if quoted[i] == "%" else 1
        out += quoted[i : i + n].lower() if n == 3 else quoted[i]
        i += n
    return out


def utf16(s):
    units = s.encode("utf-16-be")
    return [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]


b64 = lambda s: base64.b64encode(s.encode()).decode()
ENCODINGS = {
    "raw": lambda s: s,
    "base64, python": b64,
    "base64 of URLs, python": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base64 without padding, python": lambda s: b64(s).rstrip("="),
    "base64 after one byte (Basic), python": lambda s: b64(":" + s),
    "base64 after two bytes (Basic), python": lambda s: b64("u:" + s),
    "base64 after many bytes, python": lambda s: b64("user:" + s + " and more"),
    "base64 in lines of 64, openssl": lambda s: run("user:" + s, "openssl", "enc", "-base64"),
    "base64 in lines of 76, coreutils": lambda s: run(s, "base64"),
    "base64 in a URL, python": lambda s: urllib.parse.quote(b64(s), safe=""),
    "base64 in JSON with \\n, python": lambda s: json.dumps(run(s, "base64")),
    "base64 of UTF-16 (NTLM, PowerShell), python": lambda s: base64.b64encode(s.encode("utf-16-le")).decode(),
    "hex of UTF-16, python": lambda s: s.encode("utf-16-le").hex(),
    "hex of UTF-16 in network order, python": lambda s: s.encode("utf-16-be").hex(),
    "UTF-16, python": lambda s: s.encode("utf-16-le").decode("latin-1") if s.isascii() else s,
    "base64 of JSON, python": lambda s: base64.b64encode(json.dumps(s, ensure_ascii=False).encode()).decode(),
    "base64 of a URL, python": lambda s: base64.b64encode(urllib.parse.quote(s, safe="").encode()).decode() if len(s) > 7 else s,
    "base64 twice (dockerconfigjson), python": lambda s: base64.b64encode(base64.b64encode(("user:" + s).encode())).decode() if len(s) > 7 else s,
    "hex of base64, python": lambda s: b64(s).encode().hex() if len(s) > 7 else s,
    "hex in lower case, python": lambda s: binascii.hexlify(s.encode()).decode(),
    "hex in upper case, python": lambda s: binascii.hexlify(s.encode()).decode().upper(),
    "hex with colons, python": lambda s: s.encode().hex(":"),
    "hex with spaces, od": lambda s: run(s, "od", "-An", "-v", "-tx1"),
    "HTML with named entities, python": lambda s: html.escape(s),
    "HTML with decimal entities, python": lambda s: "".join("&#%d;" % ord(c) for c in s),
    "HTML with hexadecimal entities, python": lambda s: "".join("&#x%x;" % ord(c) for c in s),
    "HTML with upper-case hexadecimal entities, python": lambda s: "".join("&#X%04X;" % ord(c) for c in s),
    "HTML escaped twice, python": lambda s: html.escape(html.escape(s)),
    "URL, python": lambda s: urllib.parse.quote(s, safe=""),
    "URL in lower case, python": lower_percent,
    "URL with plus, python": lambda s: urllib.parse.quote_plus(s),
    "URL escaped twice, python": lambda s: urllib.parse.quote(urllib.parse.quote(s, safe=""), safe=""),
    "URL with all bytes escaped in lower case, python": lambda s: "".join("%%%02x" % b for b in s.encode()),
    "JSON, python": json.dumps,
    "JSON without ASCII only, python": lambda s: json.dumps(s, ensure_ascii=False),
    "JSON in JSON, python": lambda s: json.dumps(json.dumps(s)),
    "JSON with all characters escaped in lower case, python": lambda s: "".join("\\u%04x" % u for u in utf16(s)),
    "JSON with all characters escaped in upper case, python": lambda s: "".join("\\u%04X" % u for u in utf16(s)),
    "text, python's repr": repr,
    "text, python's ascii": ascii,
    "bytes, python's repr": lambda s: repr(s.encode()),
    "C with hexadecimal escapes, python": lambda s: "".join("\\x%02x" % b for b in s.encode()),
    "C with octal escapes, python": lambda s: "".join("\\%03o" % b for b in s.encode()),
    "quotemeta, perl": lambda s: run(s, "perl", "-CSD", "-0777", "-ne", "print quotemeta"),
}

vectors = [
    {"secret": s, "encoding": name, "text": "before " + encode(s) + " after"}
    for s in SECRETS
    for name, encode in ENCODINGS.items()
]
print(json.dumps(vectors, indent=1))
