/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * delivery.pml - the time from the match to the end of the receive, if a device delivers.
 *
 *   sender            device                          software            user
 *
 *   message  -------> oldest entry: MATCH ----------> matched       <---- post (lends a buffer)
 *   data     -------> into the buffer                               <---- cancel
 *     or read by the device, out of the sender's buffer
 *                     DATA_VALID -------------------> ended         ----> returns the buffer
 *            <------- FIN (rendezvous)
 *
 * Software identifies an entry by its handle.  There are fewer handles than receives, so they are
 * reused, and every completion names one.  A receive ends exactly once: received,
 * cancelled or failed; from then on its buffer is the user's, and nobody writes into it.
 *
 * A stopped device cannot be distinguished from a slow one.  So software may give it up at
 * any time, whatever the device has done so far.  It first closes the device: after that
 * the device writes nothing, neither data nor completions.  Then it polls the remaining
 * completions, and only then takes the receives back: unmatched ones wait again, in
 * their order; matched ones with incomplete data fail.  Software takes a message that the
 * device has not taken.
 *
 * A single link may end, because its peer has died or broken a rule.  Software destroys its queue
 * pair, after which the device writes nothing for that peer, polls the remaining completions, and
 * then ends the receives that were matched with that peer and are not filled.  The device and
 * the other links continue.  (Here: the link of every second message.)
 *
 * Steps, each of them one atomic action here:
 *
 *   device    matches a message; writes its data; reports that; sends FIN; carries out the
 *             oldest command
 *   software  posts a receive; hands the oldest over; polls one completion; begins a cancel;
 *             closes the device; takes the receives back; receives a message by itself;
 *             destroys a link; ends the receives that were matched through it
 *
 * Properties (`must` names the one that is violated):
 *
 *   D1  a receive ends once                      D2  it is matched once
 *   D3  a received buffer holds its message, all of it
 *   D4  data is written only into a buffer that is lent
 *   D5  a sender's buffer is read only until the FIN
 *   D6  a completion is for the receive that has the handle it names
 *   D7  a take-back fails only after the completion of the match has been polled
 *   D8  three completions for each handle: then the queue has space for each
 *   D9  two commands for each handle: then the ring has space for each
 *
 * and when nothing moves any more:
 *
 *   S1  the queues are empty, no transfer is active
 *   S2  no message is on the wire while a receive waits for one
 *   S3  every rendezvous that the device took has ended at its sender: FIN or failure
 *
 * handover.pml checks which receive gets which message.  So here every message fits every
 * receive, the device has no untagged buffer (a message without an entry stays on the
 * wire), no message is unexpected, the counts are always equal, and an entry is armed at once.
 */

/* Sizes. */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#ifndef HANDLES /* and places in the device's list */
#define HANDLES 2
#endif
#ifndef QUEUE /* capacity of the completion queue */
#define QUEUE (3 * HANDLES)
#endif

/* Optional parts. */
#ifndef CANCELS /* number of receives that the user may cancel */
#define CANCELS 1
#endif
#ifndef LOSS /* software may give the device up at any time */
#define LOSS 0
#endif

#ifndef CUT /* a single link may end */
#define CUT 0
#endif

/* Mistakes. */
#ifndef END_AT_MATCH /* the user's receive ends at MATCH */
#define END_AT_MATCH 0
#endif
#ifndef FIN_AT_MATCH /* the sender is told at MATCH that its buffer is free */
#define FIN_AT_MATCH 0
#endif
#ifndef FREE_AT_MATCH /* a handle is reused after MATCH, before DATA_VALID */
#define FREE_AT_MATCH 0
#endif
#ifndef FREE_UNANSWERED /* a handle is reused while a take-back that names it is unanswered */
#define FREE_UNANSWERED 0
#endif
#ifndef NOT_CLOSED /* receives are taken back from a device that may still write */
#define NOT_CLOSED 0
#endif
#ifndef SWEEP_EARLY /* receives are taken back before the queue is empty */
#define SWEEP_EARLY 0
#endif
#ifndef POST_AGAIN /* a matched receive of a lost device waits again, and does not fail */
#define POST_AGAIN 0
#endif

#ifndef NOT_DESTROYED /* the receives of a link end while its queue pair exists */
#define NOT_DESTROYED 0
#endif
#ifndef CUT_EARLY /* ... or before the queue is empty */
#define CUT_EARLY 0
#endif

/* ---- state ----------------------------------------------------------------------- */

/* A message: on the wire; matched by the device; its data is written; DATA_VALID is written; over.
 * Lost: the device was closed before that. */
mtype:message = { coming, matched, written, valid, over, lost };

mtype:send = { lent, finished, aborted }; /* the sender's buffer in a rendezvous */

/* A receive on the shadow list: in software only, handed over, handed over with a cancel begun,
 * matched by the device. */
mtype:receive = { unposted, waiting, handed, revoked, filling, ended };
mtype:outcome = { none, received, cancelled, failed };

mtype:command = { add, revoke }; /* ADD, signaled DEL */
mtype:completion = { match, data_valid, revoke_done };

/* messages, in order of arrival */
byte arrived;
mtype:message at[MESSAGES] = coming;
bit rendezvous[MESSAGES];
mtype:send source[MESSAGES] = lent;
byte target[MESSAGES];  /* the receive whose buffer the device writes */
byte through[MESSAGES]; /* the handle in its completions */

/* software: the shadow list, in order of posting */
byte posted;
mtype:receive shadow[RECEIVES] = unposted;
mtype:outcome outcome[RECEIVES] = none;
byte holder[HANDLES]; /* receive + 1 */
bit asked[HANDLES];   /* a take-back that names it is not yet answered */
byte cancels;
bit given_up, swept;
bit cut, cut_swept; /* the link of even messages is destroyed; its receives have ended */
byte oldest = RECEIVES; /* the oldest receive that waits, or RECEIVES */
byte free = HANDLES;    /* a free handle, or HANDLES */

/* device: handles and their buffers */
byte entry[HANDLES], buffer[HANDLES], entries;
byte work; /* set of messages with work to do */

chan commands = [2 * HANDLES] of { mtype:command, byte, byte };   /* handle, receive */
chan completions = [QUEUE] of { mtype:completion, byte, byte }; /* handle, ok */

/* the true state, not known to any process */
byte got[RECEIVES];  /* the message that it was matched with, + 1 */
byte data[RECEIVES]; /* the message in its buffer, + 1 */

/* Used within one step only: 0 between steps, so that they make no states. */
byte i, k, m, h, r, ok;
mtype:command order;
mtype:completion what;

inline step_ends() {
    i = 0; k = 0; m = 0; h = 0; r = 0; ok = 0;
    order = 0;
    what = 0
}

/* ---- rules ----------------------------------------------------------------------- */

#define must(truth, name) \
    if :: (truth) :: else -> printf("broken: "); printf(name); printf("\n"); assert(false) fi

inline matched_with(r, m) {
    must(got[r] == 0, "a receive is matched once (D2)");
    got[r] = m + 1
}

inline write_data(r, m) {
    printf("@ data %d %d\n", m, r);
    must(shadow[r] != unposted && shadow[r] != ended, "data goes into a lent buffer only (D4)");
    must(!rendezvous[m] || source[m] == lent, "a sender's buffer is read before its FIN (D5)");
    data[r] = m + 1
}

inline finish_receive(r, how) {
    must(shadow[r] != ended, "a receive ends once (D1)");
    shadow[r] = ended;
    outcome[r] = how;
    must(how != received || data[r] == got[r], "a received buffer holds its message (D3)")
}

inline finish_send(m, how) {
    printf("@ fin %d %d\n", m, how == finished);
    source[m] = how
}

/* ---- device ---------------------------------------------------------------------- */

#define by_cut(m) (!((m) & 1))
/* No further step is taken for this message. */
#define gone(m) (cut && by_cut(m) && !NOT_DESTROYED)

inline look_for_work() {
    work = 0;
    for (k : 0 .. MESSAGES - 1) {
        work = work | (((at[k] == matched || at[k] == written ||
                         (at[k] == valid && rendezvous[k])) && !gone(k)) << k)
    }
    step_ends()
}

inline complete(what, h, ok) {
    must(len(completions) < QUEUE, "the completion queue has space (D8)");
    completions!what, h, ok
}

inline remove_entry(k) {
    entries--;
    for (i : 0 .. HANDLES - 2) {
        if
        :: i >= k -> entry[i] = entry[i + 1]; buffer[i] = buffer[i + 1]
        :: else
        fi
    }
    entry[entries] = 0;
    buffer[entries] = 0
}

/* Matches the message with the number `arrived`; whether it is a rendezvous is chosen. */
inline match_message() {
    m = arrived;
    arrived++;
    h = entry[0];
    r = buffer[0];
    remove_entry(0);
    printf("@ arrive %d %d\n", m, rendezvous[m]);
    printf("@ device_match %d %d %d\n", m, r, h);
    matched_with(r, m);
    at[m] = matched;
    target[m] = r;
    through[m] = h;
    complete(match, h, m);
    if
    :: FIN_AT_MATCH && rendezvous[m] -> finish_send(m, finished)
    :: else
    fi
}

/* The next step of a message that the device delivers. */
inline deliver(m) {
    if
    :: at[m] == matched ->
        write_data(target[m], m);
        at[m] = written
    :: at[m] == written ->
        printf("@ device_valid %d %d\n", m, through[m]);
        complete(data_valid, through[m], 1);
        at[m] = valid
    :: else ->
        finish_send(m, finished);
        at[m] = over
    fi
}

inline carry_out_command() {
    commands?order, h, r;
    if
    :: order == add ->
        printf("@ device_add %d %d\n", h, r);
        entry[entries] = h;
        buffer[entries] = r;
        entries++
    :: order == revoke ->
        k = 0;
        do
        :: k < entries && entry[k] != h -> k++
        :: else -> break
        od;
        ok = (k < entries);
        printf("@ device_revoke %d %d\n", h, ok);
        if
        :: ok -> remove_entry(k)
        :: else
        fi;
        complete(revoke_done, h, ok)
    fi
}

#define running (!given_up || NOT_CLOSED)

proctype Device() {
    byte chosen;
end:
    do
    :: atomic {
        running && arrived < MESSAGES && entries > 0 && !swept && !gone(arrived) ->
        if
        :: rendezvous[arrived] = 0
        :: rendezvous[arrived] = 1
        fi;
        d_step { match_message(); look_for_work() }
       }
    :: atomic {
        running && work ->
        do
        :: work & (1 << chosen) -> break
        :: work >> (chosen + 1) -> chosen++
        od;
        d_step { deliver(chosen); chosen = 0; look_for_work() }
       }
    :: d_step { !given_up && len(commands) > 0 -> carry_out_command(); step_ends() }
    :: d_step { gone(arrived) && arrived < MESSAGES -> at[arrived] = lost; arrived++; step_ends() }
    od
}

/* ---- software -------------------------------------------------------------------- */

/* After each step.  A handle is free when no completion can name it any more. */
inline look_for_space() {
    oldest = RECEIVES;
    free = HANDLES;
    for (k : 0 .. RECEIVES - 1) {
        oldest = (oldest == RECEIVES && shadow[k] == waiting -> k : oldest)
    }
    for (k : 0 .. HANDLES - 1) {
        ok = (!holder[k] || (FREE_AT_MATCH && shadow[holder[k] - 1] == filling)) &&
             (!asked[k] || FREE_UNANSWERED);
        free = (free == HANDLES && ok -> k : free)
    }
    step_ends()
}

inline command(order, h, r) {
    must(len(commands) < 2 * HANDLES, "the command ring has space (D9)");
    commands!order, h, r
}

inline hand_over() {
    printf("@ software_add %d %d\n", free, oldest);
    command(add, free, oldest);
    holder[free] = oldest + 1;
    shadow[oldest] = handed
}

inline poll_match(h) {
    must(holder[h], "a completion names a handle in use (D6)");
    r = holder[h] - 1;
    must(shadow[r] == handed || shadow[r] == revoked, "MATCH is for a receive handed over (D6)");
    shadow[r] = filling;
    if
    :: END_AT_MATCH -> finish_receive(r, received)
    :: else
    fi
}

inline poll_data_valid(h) {
    must(holder[h], "a completion names a handle in use (D6)");
    r = holder[h] - 1;
    holder[h] = 0;
    if
    :: END_AT_MATCH
    :: else ->
        must(shadow[r] == filling, "DATA_VALID is for a matched receive (D6)");
        finish_receive(r, received)
    fi
}

inline poll_answer(h, ok) {
    asked[h] = 0;
    r = (holder[h] -> holder[h] - 1 : RECEIVES);
    if
    :: ok ->
        must(r < RECEIVES && shadow[r] == revoked, "an answer is for a revoked receive (D6)");
        holder[h] = 0;
        finish_receive(r, cancelled)
    :: else ->
        must(r == RECEIVES || shadow[r] == filling, "the match was polled before the failure (D7)")
    fi
}

inline poll() {
    completions?what, h, m;
    ok = m;
    if
    :: what == match ->
        printf("@ poll_match %d %d\n", h, m);
        poll_match(h)
    :: what == data_valid ->
        printf("@ poll_valid %d %d\n", h, m);
        poll_data_valid(h)
    :: what == revoke_done ->
        printf("@ poll_revoke %d %d\n", h, ok);
        poll_answer(h, ok)
    fi;
    look_for_space()
}

/* k: the handle of receive r. */
inline find_handle(r) {
    k = 0;
    do
    :: k < HANDLES && holder[k] != r + 1 -> k++
    :: else -> break
    od
}

inline begin_cancel(r) {
    cancels++;
    printf("@ cancel %d\n", r);
    if
    :: shadow[r] == waiting -> finish_receive(r, cancelled)
    :: shadow[r] == handed && !given_up ->
        find_handle(r);
        command(revoke, k, r);
        asked[k] = 1;
        shadow[r] = revoked
    :: else /* too late, or already requested */
    fi;
    look_for_space()
}

/* The device is closed and its completions are polled: software takes the other receives back. */
inline sweep() {
    printf("@ sweep\n");
    swept = 1;
    for (r : 0 .. RECEIVES - 1) {
        if
        :: shadow[r] == handed || (shadow[r] == filling && POST_AGAIN) -> shadow[r] = waiting
        :: shadow[r] == filling && !POST_AGAIN -> finish_receive(r, failed)
        :: shadow[r] == revoked -> finish_receive(r, cancelled)
        :: else
        fi
    }
    for (m : 0 .. MESSAGES - 1) {
        if
        :: m < arrived && rendezvous[m] && source[m] == lent -> finish_send(m, aborted)
        :: else
        fi
    }
    look_for_space()
}

/* The link is destroyed and the completions are polled: receives matched through it that are not
 * filled will never be. */
inline sweep_link() {
    printf("@ sweep_link\n");
    cut_swept = 1;
    for (h : 0 .. HANDLES - 1) {
        r = (holder[h] -> holder[h] - 1 : RECEIVES);
        if
        :: r < RECEIVES && shadow[r] == filling && by_cut(got[r] - 1) ->
            finish_receive(r, failed);
            holder[h] = 0
        :: else
        fi
    }
    for (m : 0 .. MESSAGES - 1) {
        if
        :: m < arrived && by_cut(m) && rendezvous[m] && source[m] == lent -> finish_send(m, aborted)
        :: else
        fi
    }
    look_for_space()
}

/* Without a device: receives message `arrived` into the oldest receive. */
inline receive_message() {
    m = arrived;
    arrived++;
    r = oldest;
    printf("@ arrive %d %d\n", m, rendezvous[m]);
    printf("@ software_match %d %d\n", m, r);
    matched_with(r, m);
    write_data(r, m);
    finish_receive(r, received);
    if
    :: rendezvous[m] -> finish_send(m, finished)
    :: else
    fi;
    look_for_space()
}

proctype Software() {
    byte chosen;
end:
    do
    :: d_step { posted < RECEIVES ->
        printf("@ post %d\n", posted);
        shadow[posted] = waiting;
        posted++;
        look_for_space()
       }
    :: d_step { !given_up && oldest < RECEIVES && free < HANDLES -> hand_over(); look_for_space() }
    :: d_step { len(completions) > 0 && !swept -> poll() }
    :: atomic {
        cancels < CANCELS && posted > 0 ->
        do
        :: chosen + 1 < posted -> chosen++
        :: break
        od;
        d_step { begin_cancel(chosen); chosen = 0 }
       }
    :: d_step { LOSS && !given_up -> printf("@ close\n"); given_up = 1; step_ends() }
    :: d_step { given_up && !swept && (len(completions) == 0 || SWEEP_EARLY) -> sweep() }
    :: d_step { CUT && !cut && !given_up -> printf("@ destroy\n"); cut = 1; look_for_work() }
    :: d_step { cut && !cut_swept && !given_up && (len(completions) == 0 || CUT_EARLY) -> sweep_link() }
    :: atomic {
        swept && arrived < MESSAGES && oldest < RECEIVES ->
        if
        :: rendezvous[arrived] = 0
        :: rendezvous[arrived] = 1
        fi;
        d_step { receive_message() }
       }
    od
}

/* ---- the end of a run ------------------------------------------------------------ */

init {
    atomic { run Device(); run Software() }
    timeout;
    d_step {
        must(posted == RECEIVES, "every receive is posted (S1)");
        must(given_up || (len(completions) == 0 && len(commands) == 0 && !work),
             "nothing is under way (S1)");
        for (r : 0 .. RECEIVES - 1) {
            must(shadow[r] == ended || arrived == MESSAGES,
                 "no message waits while a receive waits (S2)");
            must(shadow[r] == ended || got[r] == 0, "a matched receive ends (S1)");
        }
        for (m : 0 .. MESSAGES - 1) {
            must(m >= arrived || !rendezvous[m] || source[m] != lent, "a rendezvous ends (S3)")
        }
        step_ends()
    }
}
