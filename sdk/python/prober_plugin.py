"""The SDK for plugins in Python, which run as processes.

A plugin is a module check.py with one function:

    import prober_plugin as prober

    def probe(request):
        return prober.success("fine").metric("answer_seconds", 0.02, "s")

An outcome is the verdict about the target. An exception means that there is no verdict, and prober tries
again. A function validate(config) may return a text that says what is wrong with a config beyond its schema.

`prober plugin build` makes one executable file of the module, its manifest and this SDK. It needs Debian's
python3-grpcio and python3-cryptography. Tests of check.py need neither.

A check of Nagios is a command that ends with nagios(), and needs neither as well.
"""

import argparse
import base64
import datetime
import decimal
import json
import math
import os
import re
import sys
import traceback

SUCCESS, WARNING, FAILURE, UNKNOWN = range(4)


class Outcome:
    """A result with its message and metrics."""

    def __init__(self, result, message):
        self.result, self.message, self.metrics = result, str(message), []

    def metric(self, name, value, unit="", labels=None):
        """Adds a metric, and returns the outcome. A value that is not finite is left out. Raises TypeError,
        ValueError or OverflowError for a value that float refuses."""
        value = float(value)
        if math.isfinite(value):
            self.metrics.append({"name": name, "value": value, "unit": unit, "labels": labels or {}})
        return self

    def __eq__(self, other):
        return isinstance(other, Outcome) and vars(self) == vars(other)

    def __repr__(self):
        return "Outcome(%r, %r, %r)" % (self.result, self.message, self.metrics)


def success(message):
    return Outcome(SUCCESS, message)


def warning(message):
    return Outcome(WARNING, message)


def failure(message):
    """The target failed. An OSError gives its text alone."""
    if isinstance(message, OSError) and message.strerror:
        message = message.strerror.lower()
    return Outcome(FAILURE, message)


def unknown(message):
    """The health is unknown. It counts as a failure, and is not retried."""
    return Outcome(UNKNOWN, message)


class Request:
    """The request of one attempt. `document` is all of it: docs/abi.md describes the fields."""

    def __init__(self, document, context=None):
        self.document, self._context = document, context
        self.config = document.get("config") or {}
        target = document.get("target") or {}
        self.host, self.port = target.get("ip") or target.get("host", ""), target.get("port", 0)
        self.unix = target.get("unix", "")

    def time_left(self):
        """Returns the seconds until the deadline, None without one."""
        return self._context.time_remaining() if self._context else None

    def active(self):
        """Reports whether prober still waits for the verdict."""
        return self._context is None or self._context.is_active()

    def duration(self, name, default):
        """Returns the seconds of a duration in the config, such as "500ms" or "1m30s"."""
        text = self.config.get(name)
        return default if text is None else seconds(text)


def seconds(text):
    """Returns the seconds of a duration such as "1m30s". Raises ValueError if it is not one."""
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
    total, rest = 0.0, text
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        letters = len(rest) - digits - len(rest[digits:].lstrip("numsh"))
        unit = rest[digits : digits + letters]
        if not digits or unit not in units:
            raise ValueError("%r is not a duration" % text)
        total += float(rest[:digits]) * units[unit]
        rest = rest[digits + letters :]
    if not text:
        raise ValueError("a duration is empty")
    return total


class Arguments(argparse.ArgumentParser):
    """Parses the arguments of a check of Nagios. Wrong ones make it UNKNOWN; without it, argparse ends the program
    with 2, which is CRITICAL."""

    def error(self, message):
        nagios(lambda: unknown("%s: %s" % (self.prog, message)))


def nagios(check):
    """Calls check(), which returns an outcome, and ends the program as a check of Nagios: with a line and an exit
    code. An exception is UNKNOWN. Metrics of Nagios have no labels."""
    try:
        out = check()
        line = _line(out)
    except Exception as err:
        traceback.print_exc()
        out = unknown(repr(err))
        line = _line(out)
    sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
    sys.stdout.flush()
    sys.exit(out.result)


def _line(out):
    """Returns the line of an outcome: the message, a bar, and the metrics."""
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[out.result]
    line = "%s - %s" % (word, " ".join(out.message.split()).replace("|", "/"))
    metrics = []
    for m in out.metrics:
        if m["labels"] or not re.fullmatch("[^'=|\\s]+", m["name"]) or not re.fullmatch("[A-Za-z%]*", m["unit"]):
            raise ValueError("Nagios has no metric like %r" % m)
        number = re.sub(r"\.0$", "", format(decimal.Decimal(repr(m["value"])), "f"))
        metrics.append("%s=%s%s" % (m["name"], number, m["unit"]))
    return line + (" | " + " ".join(metrics) if metrics else "")


def serve(plugin, manifest):
    """Serves the plugin, a module with probe and perhaps validate, until prober ends. manifest is the text of
    its plugin.yaml."""
    if os.environ.get("PROBER_PLUGIN") is None:
        sys.exit("this is a plugin of prober, which starts it by itself")
    import grpc
    from concurrent import futures

    key, der, pem = _certificate()
    # Only the host that has started this process may connect: it has handed over its certificate.
    credentials = grpc.ssl_server_credentials(
        [(key, pem)], root_certificates=os.environ["PLUGIN_CLIENT_CERT"].encode(), require_client_auth=True
    )
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), handlers=[_handlers(grpc, plugin, manifest)])
    socket = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin.sock")
    server.add_secure_port("unix:" + socket, credentials)
    server.start()
    print("1|1|unix|%s|grpc|%s" % (socket, base64.b64encode(der).decode().rstrip("=")), flush=True)
    while os.read(0, 512):  # prober holds the other end
        pass
    server.stop(grace=1).wait()


def _handlers(grpc, plugin, manifest):
    messages = _messages()
    validate = getattr(plugin, "validate", None)

    def describe(request, context):
        return messages["DescribeResponse"](abi=1, manifest=manifest, validates_config=validate is not None, sdk="python")

    def validate_config(request, context):
        wrong = validate(Request(json.loads(request.request)).config)
        return messages["ValidateConfigResponse"](code=1 if wrong else 0, message=wrong or "")

    def probe(request, context):
        context.send_initial_metadata(())  # from here on time counts for the target
        try:
            out = plugin.probe(Request(json.loads(request.request), context))
            result = {"message": out.message, "metrics": out.metrics}
            verdict = messages["Verdict"](code=out.result, result=json.dumps(result, allow_nan=False).encode())
        except Exception as err:
            verdict = messages["Verdict"](code=-1, result=json.dumps({"message": repr(err)}).encode())
        yield messages["ProbeEvent"](verdict=verdict)

    def method(make, function, request, response):
        return make(
            function, request_deserializer=messages[request].FromString, response_serializer=messages[response].SerializeToString
        )

    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    return grpc.method_handlers_generic_handler(
        "prober.plugin.v1.Plugin",
        {
            "Describe": method(unary, describe, "DescribeRequest", "DescribeResponse"),
            "ValidateConfig": method(unary, validate_config, "ValidateConfigRequest", "ValidateConfigResponse"),
            "Probe": method(stream, probe, "ProbeRequest", "ProbeEvent"),
        },
    )


def _messages():
    """Returns the messages of prober_plugin_v1.proto, without the fields that are not used here."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="prober_plugin_v1.proto", package="prober.plugin.v1", syntax="proto3")
    for name, fields in {
        "DescribeRequest": [("abi", 1, field.TYPE_INT32)],
        "DescribeResponse": [
            ("abi", 1, field.TYPE_INT32),
            ("manifest", 2, field.TYPE_BYTES),
            ("validates_config", 3, field.TYPE_BOOL),
            ("sdk", 4, field.TYPE_STRING),
        ],
        "ValidateConfigRequest": [("request", 1, field.TYPE_BYTES)],
        "ValidateConfigResponse": [("code", 1, field.TYPE_INT32), ("message", 2, field.TYPE_STRING)],
        "ProbeRequest": [("request", 1, field.TYPE_BYTES)],
        "ProbeEvent": [("verdict", 2, "Verdict")],
        "Verdict": [("code", 1, field.TYPE_SINT32), ("result", 2, field.TYPE_BYTES)],
    }.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            f = message.field.add(name=field_name, number=number, label=field.LABEL_OPTIONAL)
            if isinstance(kind, str):
                f.type, f.type_name = field.TYPE_MESSAGE, ".prober.plugin.v1." + kind
            else:
                f.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = {}
    for message in file.message_type:
        descriptor = pool.FindMessageTypeByName("prober.plugin.v1." + message.name)
        if hasattr(message_factory, "GetMessageClass"):
            made[message.name] = message_factory.GetMessageClass(descriptor)
        else:  # before 4.22
            made[message.name] = message_factory.MessageFactory(pool).GetPrototype(descriptor)
    return made


def _certificate():
    """Returns a key, and a certificate as DER and PEM. The key is of P-256, which every gRPC supports."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem, cert.public_bytes(serialization.Encoding.DER), cert.public_bytes(serialization.Encoding.PEM)
