/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h - what an endpoint has sent, received and matched, and when it waited, as a file.
 *
 * The recorder belongs to one endpoint and writes FOLDER/matchbox-HOST-PID-N.trace, HOST being the halves
 * of the header's field in one, as 8 digits: processes with one number, of several hosts or in several pid
 * namespaces, have files of different names.  The reader gives the events back in their order.  A file is
 * a header and records, all numbers little-endian:
 *
 *   header  offset size field        meaning
 *              0     8  magic        "MBXTRACE"
 *              8     4  version      TRACE_VERSION
 *             12     4  record_size  TRACE_RECORD_SIZE, of a long record
 *             16     4  rank         in its job; 2^32-1 not known
 *             20     4  pid          of the process
 *             24     4  endpoint     the N of the file's name
 *             28     4  check        of the other 60 bytes
 *             32     8  start_ns     clock_now() when the recording began; the files of
 *                                    one machine (since its start) share this clock
 *             40     8  host         base/host.h; 0 not known
 *             48     4  size         ranks of its job; 0 not known
 *             52     4  address      a hash of the endpoint's address, as peers have it
 *             56     8  wall_ns      clock_wall() at start_ns; 0 not known
 *
 *   record  offset size field        meaning
 *              0     1  type         enum trace_type
 *              1     1  zero         0
 *              2     2  form         the number by which later short records refer to this one; 0 in a flight
 *                                    recording
 *              4     4  context_id   of the envelope
 *              8     4  source       of the envelope; 2^32-1 is ANY_SOURCE; of what we send, its
 *                                    receiver
 *             12     4  check        of the other 52 bytes and the record's number; xor CHECK_DONE
 *                                    (format.h), if what a send or an arrive is about is complete
 *                                    at once
 *             16     8  tag          of the envelope
 *             24     8  ignore       of a receive or probe; 1 = not compared; or an amount
 *             32     8  entry        what this is about
 *             40     8  partner      what it met, or found; 0: nothing
 *             48     8  delta_ns     since the record before (the first: since start_ns)
 *
 * A record with bit 7 in its first byte is short, of TRACE_SHORT_SIZE bytes; one with bit 6 and not bit 7 is tiny, of
 * TRACE_TINY_SIZE.  Its type, envelope, and ignore or amount are as in the last long record of its form, and its numbers
 * are differences from earlier ones (short.h).
 *
 *   type     envelope is    entry                              partner
 *   post     the receive's  the receive                        message taken, or 0: it waits
 *   arrive   the message's  the message if it waits, or 0      receive met, or 0
 *   cancel   the receive's  the receive, which waited          0
 *   peek     as asked       0                                  message found, or 0
 *   claim    the message's  the message, which waited          0
 *   take     the message's  the message, which was claimed     the receive that gets it
 *   discard  the message's  the message, which was claimed     0
 *   drop     the message's  the message, which waited          0: no receive can want it
 *   close    0              0                                  0
 *
 * what a program has said of itself (mbx_name_program() and the like), before the first event that
 * follows it:
 *
 *   program  0              text: what the envelopes mean
 *   context  its id, 0      text: its name; tag has how many ranks it has (0: not known)
 *   place    its number, 0  text: `CALL ADDRESS FILE`, a call of MPI and the address at which the program goes on
 *                           after it, in hexadecimal as FILE's symbols count
 *   peer     its address,   entry: its process; partner: 1 + its rank, or 0: not known; tag: its
 *                           host; ignore: its job
 *
 * A text lies in several records of one type, 24 bytes in the ignore, entry and partner of each,
 * the number of the record in the upper half of tag; the one with a zero byte is the last.
 *
 * and the steps of messages that wait at their sender (docs/internals/flow-control.md), the source
 * being the other endpoint:
 *
 *   defer    0              the epoch                          0: it defers messages to us
 *   rtr      the receive's  the receive, advertised to that sender   its epoch
 *   match    the message's  our send                           the receive that it suits
 *   lock     the message's  our send, which owns the word of   the receive
 *   grant    the message's  our send, which is to be received  by the receive, or 0: a probe
 *   lost     the message's  our send, which waits again        the receive, which is closed
 *   retire   the receive's  the receive, no longer open        0
 *   publish  0              our epoch, which the               messages that it sees from
 *                           other knows                        now on
 *   pull     the message's  the receive, or the message of a   the other's send, which it
 *                           matched probe                      takes by itself
 *   pulled   the message's  our send, which was pulled         0
 *   announce the receive's  the receive, advertised to that sender   0: in advance
 *   void     the receive's  0                                  the receive, whose advert to us was of no use
 *   write    the message's  our send, which goes into          the receive
 *
 * how messages travel, the source of what is sent being its receiver; and waits:
 *
 *   type     envelope is    amount                   entry             partner
 *   send     the message's  its bytes                n: it is the n-th to that peer
 *   leave    the message's  protocol + 1             n                 our send, which goes on
 *   sent     the message's  protocol + 1, and 256    our send, or 0:   n, or 0
 *                           times its errno          it had no leave
 *   received the message's  bytes in the buffer      the receive       errno
 *   rts      the message's  bytes that go with it    our send          0
 *   data     the message's  bytes asked for by CTS   our send          0
 *   cts      the message's  bytes asked for          the receive       0
 *   read     the message's  bytes to read            the receive       0
 *   share    the message's  bytes that the sender    the receive       0
 *                           is asked to write
 *   fin      the message's  0                        the receive       0
 *   hand     the receive's  bytes of its buffer      the receive       0: to a device
 *   wait     0              ns since it began        its number        0
 *   waited   0              ns that it took          its number        ns since it ended
 *   clock    0              clock_wall()             clock_now()       0
 *   at       0              0                        a place           0: the wait goes on there; 1: there the
 *                                                                      program came to us again, to
 *                                                                      send or receive, after it
 *                                                                      had not for TRACE_AWAY_NS;
 *                                                                      2: there it has made the send, receive or
 *                                                                      probe before
 *
 * and what a program sees, if a record is written as well (mbx_trace_note()):
 *
 *   event    0              its number in the record           the receive, or 0: the probe before
 *   reported 0              our send or receive, whose completion the program has been told
 *
 * A short message has two records and not four, one on each side, for nothing happens between its two events there.  So
 * a send also has, in partner, the protocol + 1 by which the message goes if it leaves at once, and an arrive that meets a
 * receive has, as its amount, the bytes of a message that is all there + 1 (else 0).  If it is complete then, its
 * record is made one that is done, and the reader gives out two events of one time: send and sent, arrive and received.
 *
 * Older versions are also read.  Version 5 had none of the last two.  Version 4 also had no short records, and 0 in
 * place of form.  Version 3 also had no records that are done, and grew by pieces of 64 KiB.
 *
 * The k-th message of one envelope that is sent to a peer is the k-th of that envelope that arrives
 * there from us: so the files of both sides pair up, and nothing is added to what travels.
 *
 * A flight recording (matchbox-HOST-PID-N.flight, or a memory file of the name FLIGHT_NAME) has
 * the last events:
 *
 *   offset size field    meaning
 *        0    64         as the header of a trace, with the magic "MBXFLGHT"
 *       64     8 slots   records in the ring
 *       72     8 count   events recorded so far: the last `slots` of them are there
 *       80    48         0
 *      128 56*s ring     event number k is record k mod slots; in place of delta_ns is the time since start_ns
 *      ...    56 each    names, numbered from 0, FLIGHT_NAMES_MAX at most; zeros after them
 *
 * A file whose recorder was ended before trace_stop() has zeros after its last record, which
 * may be written in part.
 *
 * Invariants of a whole file
 *   I1  the last record is a close, and only the last
 *   I2  no number names two receives or two messages (a receive and a message may share
 *       one)
 *   I3  every check is right, so a record that is damaged or not in its place is noticed
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_MAGIC        "MBXTRACE"
#define TRACE_VERSION      6u
#define TRACE_VERSION_READ 3u /* the oldest one that is read */
#define TRACE_HEADER_SIZE  64
#define TRACE_RECORD_SIZE  56
#define TRACE_SHORT_SIZE   16
#define TRACE_TINY_SIZE    8
#define TRACE_PIECE        ((size_t)256 << 10) /* by which a file that is recorded to grows */
#define TRACE_RANK_UNKNOWN UINT32_MAX
#define TRACE_ANY_SOURCE   UINT32_MAX
#define TRACE_PEERS_MAX    (1u << 22) /* numbers of peers that are named are below */

#define TRACE_PLACES_MAX   128 /* places that a file names */

#define TRACE_AWAY_NS      1000000

/* The partner of TRACE_AT. */
enum trace_at { TRACE_AT_WAIT, TRACE_AT_COMES, TRACE_AT_CALL };

#define FLIGHT_MAGIC     "MBXFLGHT"
#define FLIGHT_NAME      "matchbox-flight"
#define FLIGHT_SLOTS_MAX (UINT64_C(1) << 20)
#define FLIGHT_NAMES_MAX 65536u
#define FLIGHT_SIZE_MAX  (128 + (FLIGHT_SLOTS_MAX + FLIGHT_NAMES_MAX) * TRACE_RECORD_SIZE)

enum trace_type {
    TRACE_POST = 1,
    TRACE_ARRIVE,
    TRACE_CANCEL,
    TRACE_PEEK,
    TRACE_CLAIM,
    TRACE_TAKE,
    TRACE_DISCARD,
    TRACE_CLOSE,
    TRACE_DEFER,
    TRACE_RTR,
    TRACE_MATCH,
    TRACE_LOCK,
    TRACE_GRANT,
    TRACE_LOST,
    TRACE_RETIRE,
    TRACE_PUBLISH,
    TRACE_PULL,
    TRACE_PULLED,
    TRACE_ADVERTISE,
    TRACE_VOID,
    TRACE_WRITE,
    TRACE_PROGRAM,
    TRACE_CONTEXT,
    TRACE_PEER,
    TRACE_SEND,
    TRACE_LEAVE,
    TRACE_SENT,
    TRACE_RECEIVED,
    TRACE_RTS,
    TRACE_DATA,
    TRACE_CTS,
    TRACE_READ,
    TRACE_SHARE,
    TRACE_FIN,
    TRACE_HAND,
    TRACE_WAIT,
    TRACE_WAITED,
    TRACE_CLOCK,
    TRACE_PLACE,
    TRACE_AT,
    TRACE_DROP,
    TRACE_EVENT,
    TRACE_REPORTED,
    TRACE_TYPES
};

struct trace_event {
    enum trace_type type;
    uint32_t context_id, source;
    uint64_t tag;
    union {
        uint64_t ignore;
        uint64_t amount;
    };
    uint64_t entry, partner;
    uint64_t delta_ns;
};

/* "post", ...; "unknown" for anything else. */
const char *trace_type_name(unsigned type);

/* ---- recording: one thread at a time per recorder ---- */

struct trace_recorder;

/* Fields of the header. */
struct trace_info {
    uint32_t rank, pid, endpoint;
    uint32_t size, address;
    uint64_t start_ns, wall_ns, host;
};

/* Starts a file of its own in folder, which must exist: O_EXCL, mode 0600.  The caller has filled in
 * rank, size, address and host of info.
 * 0; -ENOMEM; or why the file cannot be made or written.  Undone by trace_stop(). */
int trace_start(const char *folder, const struct trace_info *info, struct trace_recorder **out);

/* As trace_start(), for the last `events` events (1 to FLIGHT_SLOTS_MAX).  folder NULL: in
 * memory, where others find them by the name FLIGHT_NAME among the descriptors of this
 * process.  trace_stop() removes the file: what is left over is of a process that has not
 * closed its endpoint. */
int trace_start_flight(const char *folder, uint64_t events, const struct trace_info *info,
                       struct trace_recorder **out);

/* Appends an event; its delta_ns is not looked at.  Reads the clock and writes to the mapped
 * file: what was recorded is there, whatever becomes of the process.  If the file cannot grow,
 * a warning says so once, and nothing more is recorded: the file then ends without a close. */
void trace_record(struct trace_recorder *recorder, const struct trace_event *event);

/* The time, as it is recorded. */
uint64_t trace_now(struct trace_recorder *recorder);

/* When the last event was recorded. */
uint64_t trace_last_ns(const struct trace_recorder *recorder);

/* As trace_record(), of an event that was at now_ns, which trace_now() has said, and before which nothing else is to be
 * recorded. */
void trace_record_at(struct trace_recorder *recorder, const struct trace_event *event,
                     uint64_t now_ns);

/* The message of the last event, a send or an arrive, is complete.  To be called once, before any other event. */
void trace_done(struct trace_recorder *recorder);

/* Appends a text: TRACE_PROGRAM; TRACE_CONTEXT with context_id and size; or TRACE_PLACE with
 * its number as context_id. */
void trace_record_text(struct trace_recorder *recorder, enum trace_type type,
                       uint32_t context_id, uint32_t size, const char *text);

/* Records the clocks and the close, cuts the file after it and frees everything.  NULL is allowed. */
void trace_stop(struct trace_recorder *recorder);

/* ---- reading ---- */

#define TRACE_ERROR_MAX  512
#define TRACE_READ_COUNT 64

/* In the caller's memory; info and error are to be read, the rest is read.c's. */
struct trace_reader {
    struct trace_info info;
    char error[TRACE_ERROR_MAX]; /* one line: the file, the offset, what is wrong */
    char path[256];              /* for messages: may be cut */
    int fd;
    int failed;          /* what trace_next() returned last, if it was an error; or 0 */
    bool closed;         /* a close was read */
    uint64_t records;    /* given out; what is done counts once */
    uint64_t offset;     /* of the next one; of a trace */
    struct forms *forms; /* or NULL: it has no short records */
    uint32_t version;
    bool has_second; /* of a record that is done */
    struct trace_event second;
    /* of a flight recording; 0 and NULL for a trace */
    uint64_t slots,
        count; /* count: events that were recorded, of which the last ones are here */
    uint64_t number, last_ns; /* of the next event; and when the one before was */
    unsigned char *ring;
    size_t at, held; /* what is in buffer: [at, held) */
    unsigned char buffer[TRACE_READ_COUNT * TRACE_RECORD_SIZE];
};

/* Opens a trace or a flight recording and checks its header.  0; -EBADMSG it is no trace, or
 * damaged; or the error of the system.  Then error says it and nothing is open. */
int trace_open(struct trace_reader *reader, const char *path);

/* Are these the last events alone?  Then nothing is said of what was before: the queues, and
 * how many messages. */
static inline bool trace_is_flight(const struct trace_reader *reader)
{
    return reader->slots != 0;
}

/* Is this about names, and nothing that a matching engine was asked? */
static inline bool trace_is_name(enum trace_type type)
{
    return type == TRACE_PROGRAM || type == TRACE_CONTEXT || type == TRACE_PEER ||
           type == TRACE_PLACE;
}

/* Is this about how messages travel, waits or clocks, and not about matching? */
static inline bool trace_is_travel(enum trace_type type)
{
    return type >= TRACE_SEND && type != TRACE_PLACE && type != TRACE_DROP;
}

/* Has it an envelope, or nothing to do with one? */
static inline bool trace_has_envelope(enum trace_type type)
{
    return type != TRACE_WAIT && type != TRACE_WAITED && type != TRACE_AT &&
           type != TRACE_CLOSE && type != TRACE_CLOCK && type < TRACE_EVENT;
}

/* Is the envelope of a message that we send to a peer? */
static inline bool trace_is_sent(enum trace_type type)
{
    return type >= TRACE_SEND &&
           (type <= TRACE_SENT || type == TRACE_RTS || type == TRACE_DATA);
}

/* Adds what an event of TRACE_PROGRAM, TRACE_CONTEXT or TRACE_PLACE has of a text, in its
 * place; text is always terminated, and what does not print is a '?'.  True: the text is
 * whole. */
bool trace_text_add(char *text, size_t size, const struct trace_event *event);

/* The next event.  1; 0 at the end of a whole file; -EBADMSG what follows is damaged or
 * missing (all that was whole before it has been given); or the error of the system.
 * After an error it says the same again. */
int trace_next(struct trace_reader *reader, struct trace_event *event);

void trace_close(struct trace_reader *reader);

#endif
