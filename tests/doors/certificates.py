"""Certificates for localhost and for clients, made on the spot."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Authority:
    """Who signs the certificates of clients."""

    certificate: x509.Certificate
    key: Key
    file: Path

    def client(self, *common_names: str) -> ClientCertificate:
        """Return a new certificate of a client with these common names, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _unsigned(_named(*common_names), self.certificate.subject, key).sign(self.key, hashes.SHA256())
        digest = hashlib.sha256(made.public_bytes(serialization.Encoding.DER)).hexdigest()
        return ClientCertificate(*_written(self.file.parent / digest[:16], made, key), digest)


@dataclass(frozen=True)
class ClientCertificate:
    """The certificate of a client, and its key."""

    cert: Path
    key: Path
    sha256: str

    def context(self, trusting: Path) -> ssl.SSLContext:
        """Return what a client needs to show it to a server that it trusts."""
        context = ssl.create_default_context(cafile=str(trusting))
        context.load_cert_chain(self.cert, self.key)
        return context


def made_authority(folder: Path) -> Authority:
    """Return a new authority for the certificates of clients."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("clients")
    made = _unsigned(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    signed = made.sign(key, hashes.SHA256())
    return Authority(signed, key, _written(folder, signed, key)[0])


def made_certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of a new certificate for localhost, signed by itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("localhost")
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = (
        _unsigned(name, name, key)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _written(folder, signed, key)


def _named(*common_names: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in common_names])


def _unsigned(subject: x509.Name, issuer: x509.Name, key: Key) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def _written(folder: Path, signed: x509.Certificate, key: Key) -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    return folder / "cert.pem", folder / "key.pem"
