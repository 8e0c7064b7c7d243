# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The rules of RFC 5040, 5041 and 5044 for the order of FPDUs on a connection, and for the code of a TERMINATE.

It is independent of captures: a Direction takes the FPDUs of one side in the order of transmission, and reports the
errors of each.
"""

import collections
import dataclasses
import enum
from typing import Iterator, NamedTuple


class Op(enum.IntEnum):
    WRITE = 0
    READ_REQUEST = 1
    READ_RESPONSE = 2
    SEND = 3
    SEND_INVALIDATE = 4
    SEND_SE = 5
    SEND_SE_INVALIDATE = 6
    TERMINATE = 7

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").title()


TAGGED = frozenset({Op.WRITE, Op.READ_RESPONSE})
SENDS = frozenset({Op.SEND, Op.SEND_INVALIDATE, Op.SEND_SE, Op.SEND_SE_INVALIDATE})
INVALIDATES = frozenset({Op.SEND_INVALIDATE, Op.SEND_SE_INVALIDATE})
ANY = frozenset(Op)
QUEUE = {Op.READ_REQUEST: 1, Op.TERMINATE: 2, **dict.fromkeys(SENDS, 0)}  # RFC 5040 4.1
HEADER = {True: 14, False: 18}  # tagged, untagged; RFC 5041 4.1, 4.2
READ_REQUEST_BYTES = 28


class Code(NamedTuple):
    """The first three fields of a TERMINATE (RFC 5040 4.8)."""

    layer: int
    type: int
    code: int

    def __str__(self) -> str:
        name, _ = CODES.get(self, ("no such code", ANY))
        return f"{self.layer}/{self.type}/0x{self.code:02x} ({name})"


RDMAP, DDP, LLP = 0, 1, 2
INVALID_STAG, BOUNDS, ACCESS, NOT_ASSOCIATED, WRAP, CANNOT_INVALIDATE, UNSPECIFIED = 0, 1, 2, 3, 4, 9, 0xFF
# All codes, and the messages of the peer that can be the cause: DDP checks the STag of a tagged message (RFC 5041 7.1),
# RDMAP that of a read request, and the access rights of both.
CODES = {
    **{Code(RDMAP, 0, code): ("local catastrophic error", ANY) for code in range(256)},
    Code(RDMAP, 1, INVALID_STAG): ("remote protection error: invalid STag", INVALIDATES | {Op.READ_REQUEST}),
    Code(RDMAP, 1, BOUNDS): ("remote protection error: base or bounds violation", {Op.READ_REQUEST}),
    Code(RDMAP, 1, ACCESS): ("remote protection error: access rights violation", TAGGED | {Op.READ_REQUEST}),
    Code(RDMAP, 1, NOT_ASSOCIATED): (
        "remote protection error: STag of another stream",
        INVALIDATES | {Op.READ_REQUEST},
    ),
    Code(RDMAP, 1, WRAP): ("remote protection error: TO wrap", {Op.READ_REQUEST}),
    Code(RDMAP, 1, CANNOT_INVALIDATE): ("remote protection error: STag cannot be invalidated", INVALIDATES),
    Code(RDMAP, 1, UNSPECIFIED): ("remote protection error", ANY),
    Code(RDMAP, 2, 5): ("remote operation error: RDMAP version", ANY),
    Code(RDMAP, 2, 6): ("remote operation error: unexpected opcode", ANY),
    Code(RDMAP, 2, 7): ("remote operation error: catastrophic for the stream", ANY),
    Code(RDMAP, 2, 8): ("remote operation error: catastrophic for all", ANY),
    Code(RDMAP, 2, CANNOT_INVALIDATE): ("remote operation error: STag cannot be invalidated", INVALIDATES),
    Code(RDMAP, 2, UNSPECIFIED): ("remote operation error", ANY),
    Code(DDP, 0, 0): ("DDP: local catastrophic error", ANY),
    Code(DDP, 1, 0): ("tagged buffer: invalid STag", TAGGED),
    Code(DDP, 1, 1): ("tagged buffer: base or bounds violation", TAGGED),
    Code(DDP, 1, 2): ("tagged buffer: STag of another stream", TAGGED),
    Code(DDP, 1, 3): ("tagged buffer: TO wrap", TAGGED),
    Code(DDP, 1, 4): ("tagged buffer: DDP version", TAGGED),
    Code(DDP, 2, 1): ("untagged buffer: queue number", ANY - TAGGED),
    Code(DDP, 2, 2): ("untagged buffer: no buffer for this MSN", ANY - TAGGED),
    Code(DDP, 2, 3): ("untagged buffer: MSN out of range", ANY - TAGGED),
    Code(DDP, 2, 4): ("untagged buffer: message offset", ANY - TAGGED),
    Code(DDP, 2, 5): ("untagged buffer: message too long", ANY - TAGGED),
    Code(DDP, 2, 6): ("untagged buffer: DDP version", ANY - TAGGED),
    Code(LLP, 0, 1): ("MPA: TCP connection lost", ANY),
    Code(LLP, 0, 2): ("MPA: CRC", ANY),
    Code(LLP, 0, 3): ("MPA: marker and length disagree", ANY),
    Code(LLP, 0, 4): ("MPA: request or reply frame", ANY),
    Code(LLP, 0, 5): ("MPA: local catastrophic error", ANY),  # the last three: RFC 6581 8
    Code(LLP, 0, 6): ("MPA: insufficient IRD", ANY),
    Code(LLP, 0, 7): ("MPA: no matching RTR option", ANY),
}
_CATASTROPHIC = {code for code in CODES if code[:2] in ((RDMAP, 0), (DDP, 0))}


class Cause(enum.Enum):
    """Errors of a peer."""

    STAG = "invalid STag"
    BOUNDS = "base or bounds"
    ACCESS = "access rights"
    NO_RECEIVE = "no receive"
    TOO_LONG = "message too long"
    CRC = "CRC"
    DDP_VERSION = "DDP version"
    RDMAP_VERSION = "RDMAP version"
    OPCODE = "opcode"
    TAG_BIT = "T bit"
    QUEUE = "queue number"
    MSN = "MSN"
    OFFSET = "message offset"


def codes_for(cause: Cause, op: int) -> set[Code]:
    """The TERMINATE codes that the RFCs define for a cause in that kind of message."""
    tagged = op in TAGGED
    table = {
        Cause.STAG: (
            {Code(DDP, 1, 0)}
            if tagged
            else {
                code
                for code, (_, ops) in CODES.items()
                if op in ops
                and code
                in (Code(RDMAP, 1, INVALID_STAG), Code(RDMAP, 1, CANNOT_INVALIDATE), Code(RDMAP, 2, CANNOT_INVALIDATE))
            }
        ),
        Cause.BOUNDS: {Code(DDP, 1, 1)} if tagged else {Code(RDMAP, 1, BOUNDS)},
        # DDP has no code for it; siw reports an invalid STag.
        Cause.ACCESS: {Code(RDMAP, 1, ACCESS)} | ({Code(DDP, 1, 0)} if tagged else set()),
        Cause.NO_RECEIVE: {Code(DDP, 2, 2)},
        Cause.TOO_LONG: {Code(DDP, 2, 5)},
        Cause.CRC: {Code(LLP, 0, 2)},
        Cause.DDP_VERSION: {Code(DDP, 1, 4)} if tagged else {Code(DDP, 2, 6)},
        Cause.RDMAP_VERSION: {Code(RDMAP, 2, 5)},
        Cause.OPCODE: {Code(RDMAP, 2, 6)},
        # Neither RFC has a code for an opcode in the wrong buffer model.
        Cause.TAG_BIT: {Code(RDMAP, 2, 6), *_CATASTROPHIC},
        Cause.QUEUE: {Code(DDP, 2, 1), Code(RDMAP, 2, 6)},
        Cause.MSN: {Code(DDP, 2, 3), Code(DDP, 2, 2)},
        Cause.OFFSET: {Code(DDP, 2, 4)},
    }
    return table[cause]


@dataclasses.dataclass
class Fpdu:
    """The headers of an FPDU. Fields that a kind of message does not have are None."""

    frame: int
    ulpdu: int  # length
    tagged: bool | None = None
    last: bool | None = None
    ddp_version: int | None = None
    rdmap_version: int | None = None
    op: int | None = None
    queue: int | None = None
    msn: int | None = None
    offset: int | None = None  # MO, or TO
    stag: int | None = None
    sink_stag: int | None = None  # of a read request, as the next two
    sink_offset: int | None = None
    read_size: int | None = None
    layer: int | None = None  # of a TERMINATE, as the next two
    error_type: int | None = None
    error_code: int | None = None

    @property
    def payload(self) -> int:
        return self.ulpdu - HEADER[bool(self.tagged)]


class Problem(NamedTuple):
    text: str
    cause: Cause | None = None  # if the peer must send a TERMINATE


class Direction:
    """One side of a connection. The creator of both sets `peer` to the other side."""

    def __init__(self):
        self.peer: "Direction | None" = None
        self.next_msn = {0: 1, 1: 1, 2: 1}
        self.open: Fpdu | None = None  # the last segment of a message that has not ended
        self.done = 0  # payload of that message so far
        self.reads = collections.deque()  # requests without a complete response
        self.ops: set[int] = set()  # sent
        self.wrong: list[tuple[Cause, int]] = []  # errors that the peer may report
        self.terminate: Code | None = None

    def feed(self, fpdu: Fpdu) -> Iterator[Problem]:
        found = list(self._check(fpdu))
        self.wrong += [(problem.cause, fpdu.op) for problem in found if problem.cause]
        if fpdu.op is not None:
            self.ops.add(fpdu.op)
        return iter(found)

    def _check(self, fpdu: Fpdu) -> Iterator[Problem]:
        if self.terminate:
            yield Problem("a message after TERMINATE")
        if fpdu.ddp_version != 1:
            yield Problem(f"DDP version {fpdu.ddp_version}", Cause.DDP_VERSION)
            return
        if fpdu.rdmap_version != 1:
            yield Problem(f"RDMAP version {fpdu.rdmap_version}", Cause.RDMAP_VERSION)
            return
        if fpdu.op not in ANY:
            yield Problem(f"opcode {fpdu.op}", Cause.OPCODE)
            return
        name = Op(fpdu.op).name
        if fpdu.tagged != (fpdu.op in TAGGED):
            yield Problem(f"{name} in {'a tagged' if fpdu.tagged else 'an untagged'} buffer", Cause.TAG_BIT)
            return
        yield from self._tagged(fpdu, name) if fpdu.tagged else self._untagged(fpdu, name)
        continues = self.open is not None and self.open.op == fpdu.op
        self.done = fpdu.payload + (self.done if continues else 0)
        self.open = None if fpdu.last else fpdu

    def _interleaved(self, fpdu: Fpdu, name: str) -> Iterator[Problem]:
        if self.open and fpdu.op not in (self.open.op, Op.TERMINATE):  # a TERMINATE may interrupt any message
            yield Problem(f"{name} begins before the {Op(self.open.op).name} before it has ended")

    def _tagged(self, fpdu: Fpdu, name: str) -> Iterator[Problem]:
        yield from self._interleaved(fpdu, name)
        if fpdu.op == Op.READ_RESPONSE:
            yield from self._response(fpdu)
        elif self.open and self.open.op == fpdu.op:
            if (fpdu.stag, fpdu.offset) != (self.open.stag, self.open.offset + self.open.payload):
                yield Problem(
                    f"{name} to STag 0x{fpdu.stag:08x} offset 0x{fpdu.offset:x} does not continue the segment to "
                    f"0x{self.open.stag:08x} offset 0x{self.open.offset:x} with {self.open.payload} bytes"
                )

    def _response(self, fpdu: Fpdu) -> Iterator[Problem]:
        reads = self.peer.reads
        if not reads:
            yield Problem("READ_RESPONSE to no request", Cause.OPCODE)
            return
        request = reads[0]
        done = self.done if self.open and self.open.op == Op.READ_RESPONSE else 0
        if (fpdu.stag, fpdu.offset) != (request.sink_stag, request.sink_offset + done):
            yield Problem(
                f"READ_RESPONSE to STag 0x{fpdu.stag:08x} offset 0x{fpdu.offset:x}, but the request of frame"
                f" {request.frame} is for 0x{request.sink_stag:08x} offset 0x{request.sink_offset + done:x}"
            )
        total = done + fpdu.payload
        if total > request.read_size or bool(fpdu.last) != (total >= request.read_size):
            yield Problem(
                f"READ_RESPONSE with {total} of {request.read_size} bytes {'ends' if fpdu.last else 'continues'}"
            )
        if fpdu.last:
            reads.popleft()

    def _untagged(self, fpdu: Fpdu, name: str) -> Iterator[Problem]:
        yield from self._interleaved(fpdu, name)
        if fpdu.queue != QUEUE[fpdu.op]:
            yield Problem(f"{name} in queue {fpdu.queue}", Cause.QUEUE)
            return
        continues = self.open is not None and self.open.op == fpdu.op
        msn = self.next_msn[fpdu.queue]
        if fpdu.msn != msn:
            yield Problem(f"{name} with MSN {fpdu.msn}, {msn} is next", Cause.MSN)
        expected = self.done if continues else 0
        if fpdu.offset != expected:
            yield Problem(f"{name} with message offset {fpdu.offset}, {expected} is next", Cause.OFFSET)
        if fpdu.last:
            self.next_msn[fpdu.queue] = (fpdu.msn + 1) & 0xFFFFFFFF
        elif fpdu.op in (Op.READ_REQUEST, Op.TERMINATE):
            yield Problem(f"{name} without its last segment")
        if fpdu.op == Op.READ_REQUEST:
            if fpdu.payload != READ_REQUEST_BYTES or fpdu.read_size is None:
                yield Problem(f"READ_REQUEST of {fpdu.payload} bytes")
            else:
                self.reads.append(fpdu)
        elif fpdu.op == Op.TERMINATE:
            yield from self._terminate(fpdu)

    def _terminate(self, fpdu: Fpdu) -> Iterator[Problem]:
        if None in (fpdu.layer, fpdu.error_type, fpdu.error_code):
            yield Problem("TERMINATE without a code")
            return
        self.terminate = code = Code(fpdu.layer, fpdu.error_type, fpdu.error_code)
        if code not in CODES:
            yield Problem(f"TERMINATE {code}")
            return
        _, ops = CODES[code]
        peer = self.peer
        if ops != ANY and peer.ops and not peer.ops & ops:
            sent = ", ".join(Op(op).name for op in sorted(peer.ops & ANY))
            yield Problem(
                f"TERMINATE {code} is for {', '.join(sorted(Op(op).name for op in ops))}; the peer has sent {sent} only"
            )
        if peer.wrong:
            cause, op = peer.wrong[0]
            if code not in codes_for(cause, op):
                right = ", ".join(map(str, sorted(codes_for(cause, op))))
                yield Problem(f"TERMINATE {code} for the peer's wrong {cause.value}; expected: {right}")
