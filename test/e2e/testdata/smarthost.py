"""A mail server with STARTTLS and passwords, by aiosmtpd. It writes each mail to a folder.

smarthost.py PORT CERTIFICATE KEY FOLDER
"""
import itertools, os, ssl, sys, time
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, SMTP

port, certificate, key, folder = sys.argv[1:]
numbers = itertools.count()


class Handler:
    async def handle_DATA(self, server, session, envelope):
        name = os.path.join(folder, f"{next(numbers)}")
        with open(name + ".new", "wb") as f:
            f.write(("\n".join([envelope.mail_from, *envelope.rcpt_tos]) + "\n\n").encode() + envelope.original_content)
        os.rename(name + ".new", name + ".mail")
        return "250 taken"


def authenticate(server, session, envelope, mechanism, data):
    return AuthResult(success=(data.login, data.password) == (b"prober", b"s3cret"), handled=False)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)


class Server(Controller):
    def factory(self):
        return SMTP(self.handler, tls_context=context, require_starttls=True, auth_required=True, authenticator=authenticate)


Server(Handler(), hostname="127.0.0.1", port=int(port)).start()
while True:
    time.sleep(1000)
