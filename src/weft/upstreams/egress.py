"""Where weft may connect to when the address was not chosen by the operator: nowhere inside, unless that is allowed."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import TypeAlias

from weft.errors import InputError, shown

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

INSIDE = tuple(
    ipaddress.ip_network(one)
    for one in (
        "0.0.0.0/8",  # "this network": 0.0.0.0 is this very host
        "100.64.0.0/10",  # carrier-grade NAT, where clouds keep services of their own
        "192.0.0.0/24",
        "192.88.99.0/24",
        "fec0::/10",  # site-local, which is old and still routed in places
        "64:ff9b:1::/48",  # NAT64 for networks of one's own
    )
)
"""What `ipaddress` does not, or not in every version, tell from the public internet."""

NAT64 = ipaddress.ip_network("64:ff9b::/96")
COMPATIBLE = ipaddress.ip_network("::/96")


def allowed_address(address: str, *, allow: Iterable[Network] = ()) -> bool:
    """Tell whether a connection to an address may be opened: it is public, or in one of the networks that are allowed.

    An IPv6 address with an IPv4 address inside is judged by both, as somebody on the way may take it for the other.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    networks = tuple(allow)
    return all(any(_in(each, network) for network in networks) or _public(each) for each in _meant(found))


def only_public(allow: Iterable[str] = ()) -> Callable[[str], bool]:
    """Return the check for `allow_address`, with networks in CIDR that are allowed although they are not public.

    Raises:
        InputError: one of them is no network.
    """
    networks = tuple(network(one) for one in allow)
    return lambda address: allowed_address(address, allow=networks)


def network(text: str) -> Network:
    """Read a network in CIDR, or one address.

    Raises:
        InputError: it is none.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InputError(f"not a network such as 10.1.0.0/16: {shown(text)}: {error}") from None


def _meant(address: Address) -> list[Address]:
    """Return the addresses that a connection may end at: those inside of an IPv6 address, else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.teredo is not None:
        return [address, *address.teredo]
    if address.sixtofour is not None:
        return [address, address.sixtofour]
    if _in(address, NAT64) or (_in(address, COMPATIBLE) and int(address) > 1):
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address]


def _public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and not any(_in(address, network) for network in INSIDE)


def _in(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network
