"""An FTP server with AUTH TLS and a user, by pyftpdlib.

ftpd.py PORT CERTIFICATE-AND-KEY FOLDER
"""
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import TLS_FTPHandler
from pyftpdlib.servers import FTPServer

port, pem, folder = sys.argv[1:]
authorizer = DummyAuthorizer()
authorizer.add_user("probe", "open sesame", folder)
authorizer.add_anonymous(folder)


class Handler(TLS_FTPHandler):
    certfile = pem
    banner = "files.example.com ready"
    auth_failed_timeout = 0


Handler.authorizer = authorizer
FTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
