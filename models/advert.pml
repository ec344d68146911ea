/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advert.pml - receives that the receiver advertises to their source before it sends (ADVERTISE),
 * together with messages that are sent without an advertisement.
 *
 *   source                    lock word of r     receiver
 *
 *                             open               ADVERTISE r: its number, the oldest number on
 *   keeps r, or not                              which it depends (from), and the credit that
 *   a send fits r: takes      taken              the source must have if nothing is in flight
 *   the word, WRITE                              WRITE: r leaves the engine
 *                             closed             cancels r, or a message matched it
 *
 * Steps, each of them one atomic action.  The source: sends, after a comparison with the advertised
 * receives; reads one message; ends deferring; forgets the advertised receives.  The receiver: posts;
 * advertises any open receive that no earlier one blocks; reads one message; returns credit;
 * cancels.
 *
 * Omitted: the window never ends, and a send is deferred because the source chooses to;
 * RTR and CLAIM (defer.pml) then decide, while here deferring just ends.  A receive that is not
 * advertised represents all that never are: from any source, short, or omitted for some time.  How the
 * data is written: when the word is taken the message is matched.
 *
 * Properties (`must` names the one that is violated), when the receiver reads the message that
 * binds send s and receive r, an envelope or WRITE:
 *
 *   V1   no earlier unmatched send is accepted by r
 *   V2   no earlier open receive accepts s
 *   ONE  a send is bound once, and so is a receive; a cancelled one never; and at all times only
 *        an open receive is taken
 *
 * The order is the order in which the receiver reads: when a word is taken, an earlier short message
 * may still be on its way to an earlier receive that would also accept this one.
 *
 * and when nothing moves any more:
 *
 *   NOLOSS  no unmatched send and open receive fit each other
 *   S1      the receiver knows of each receive that was taken
 */

/* Sizes. */
#ifndef SENDS
#define SENDS 3
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#ifndef CANCELS /* number of receives that the user may cancel */
#define CANCELS 0
#endif
#ifndef DEFERS /* the source may defer, and forget advertised receives */
#define DEFERS 0
#endif
#ifndef SHORTS /* some messages are short: they are never written */
#define SHORTS 0
#endif

/* Mistakes. */
#ifndef ANY_CREDIT /* an ADVERTISE counts though messages are in flight */
#define ANY_CREDIT 0
#endif
#ifndef CREDIT_OVERTAKES /* credit is not ordered with the other messages */
#define CREDIT_OVERTAKES 0
#endif
#ifndef NO_BLOCKER /* a receive is advertised though its source does not know an earlier one */
#define NO_BLOCKER 0
#endif
#ifndef NO_FROM /* the source does not check whether it has forgotten an earlier one */
#define NO_FROM 0
#endif
#ifndef OWN_NUMBER /* only the receive itself is named, not the oldest that overlaps */
#define OWN_NUMBER 0
#endif
#ifndef NO_NUMBER /* invalid ones are not remembered */
#define NO_NUMBER 0
#endif
#ifndef NO_COMPARE /* a send may leave without a comparison with the advertised receives */
#define NO_COMPARE 0
#endif
#ifndef KEEP_SHORT /* a receive stays advertised though a short message will match it */
#define KEEP_SHORT 0
#endif
#ifndef SUITS_ONLY /* for a short message only the fitting receive is forgotten, no later one */
#define SUITS_ONLY 0
#endif
#ifndef KEEP_DEFERRED /* advertised receives are kept while sends are deferred */
#define KEEP_DEFERRED 0
#endif
#ifndef NO_LOCK_WORD /* no lock word separates a cancel from the source */
#define NO_LOCK_WORD 0
#endif

#define ANY 2
#define NONE 9
#define CAPACITY 12
#define WINDOW SENDS

/* ---- state ----------------------------------------------------------------------- */

mtype:send = { future, deferred, emitted, done };
mtype:receive = { absent, open, matched, cancelled };
mtype:lockword = { unset, free, owned, closed };
mtype:up = { env, write };
mtype:down = { announce, credit };

chan up[1] = [CAPACITY] of { mtype:up, byte, byte };
chan down[2] = [CAPACITY] of { mtype:down, byte, byte, byte }; /* [1]: not ordered with the other */

/* source */
byte sent, credits = WINDOW;
mtype:send send_state[SENDS] = future;
bit tag[SENDS], is_short[SENDS];
bit is_deferring;
byte announced;         /* set of receive numbers */
byte last, forgotten;   /* numbers */

/* receiver */
byte posted, unexpected, freed, cancels;
mtype:receive receive[RECEIVES] = absent;
byte want[RECEIVES];
bit may_advertise[RECEIVES];
byte number[RECEIVES];  /* number of its ADVERTISE, from 1; 0: none */
byte numbered;

/* both */
mtype:lockword lockword[RECEIVES] = unset;
byte receive_of[RECEIVES + 1]; /* the receive with this number in ADVERTISE */

/* the true state, not known to any process */
byte owner[RECEIVES];         /* the send that took its word, + 1 */
byte got[RECEIVES], bound[SENDS];

/* Used within one step only. */
byte k, n, s, r, x, y, z;
bit ok;
mtype:up up_packet;
mtype:down down_packet;

inline step_ends() { k = 0; n = 0; s = 0; r = 0; x = 0; y = 0; z = 0; ok = 0; up_packet = 0; down_packet = 0 }

/* ---- rules ----------------------------------------------------------------------- */

#define must(truth, name) \
    if :: (truth) :: else -> printf("broken: "); printf(name); printf("\n"); assert(false) fi

#define bit_of(set, k) (((set) >> (k)) & 1)
#define with(set, k) ((set) | (1 << (k)))
#define without(set, k) ((set) & ~(1 << (k)))
#define accepts(r, s) (want[r] == ANY || want[r] == tag[s])
#define overlap(a, b) (want[a] == ANY || want[b] == ANY || want[a] == want[b])

inline bind(s, r) {
    printf("@ bind %d %d\n", s, r);
    must(got[r] == 0 && bound[s] == 0, "a send and a receive are bound once (ONE)");
    must(receive[r] == open, "only an open receive is bound (ONE)");
    must(owner[r] == 0 || owner[r] == s + 1, "a receive goes to who took its word (ONE)");
    for (k : 0 .. SENDS - 1) {
        must(k >= s || bound[k] || k >= sent || !accepts(r, k),
             "a receive gets the earliest send (V1)")
    }
    for (k : 0 .. RECEIVES - 1) {
        must(k >= r || receive[k] != open || !accepts(k, s),
             "a send goes to the earliest receive (V2)")
    }
    got[r] = s + 1;
    bound[s] = r + 1;
    receive[r] = matched
}

/* ---- source ---------------------------------------------------------------------- */

inline forget(n) {
    if
    :: !NO_NUMBER && n > forgotten -> forgotten = n
    :: else
    fi
}

inline forget_all() { forget(last); announced = 0 }

inline emit(s) { printf("@ emit %d\n", s); send_state[s] = emitted; credits = credits - 1; up[0]!env, s, 0 }

/* The receives in z were forgotten, but may be open: forgets all later ones that overlap one of
 * them. */
inline forget_behind() {
    for (n : 1 .. RECEIVES) {
        for (k : 1 .. RECEIVES) {
            if
            :: k < n && bit_of(z, k) && bit_of(announced, n) && overlap(receive_of[k], receive_of[n]) ->
                forget(n);
                announced = without(announced, n);
                z = with(z, n)
            :: else
            fi
        }
    }
}

/* y: the receive that send s goes into, or NONE. */
inline lock_announced(s) {
    y = NONE;
    for (n : 1 .. RECEIVES) {
        if
        :: y == NONE && bit_of(announced, n) && accepts(receive_of[n], s) ->
            x = receive_of[n];
            if
            :: is_short[s] && !KEEP_SHORT ->
                forget(n);
                announced = without(announced, n);
                z = with(z, n)
            :: is_short[s] && KEEP_SHORT
            :: !is_short[s] ->
                announced = without(announced, n);
                if
                :: lockword[x] == free || NO_LOCK_WORD ->
                    must(receive[x] == open && owner[x] == 0, "only an open receive is taken (ONE)");
                    lockword[x] = owned;
                    owner[x] = s + 1;
                    y = x
                :: else
                fi
            fi
        :: else
        fi
    }
    if
    :: z != 0 && !SUITS_ONLY -> forget_behind()
    :: else
    fi
}

inline post_send() {
    s = sent;
    if
    :: tag[s] = 0
    :: tag[s] = 1
    fi;
    if
    :: SHORTS -> is_short[s] = 1
    :: is_short[s] = 0
    fi;
    sent = sent + 1;
    send_state[s] = deferred;
    printf("@ send %d %d\n", s, tag[s]);
    if
    :: !is_deferring || KEEP_DEFERRED -> lock_announced(s)
    :: NO_COMPARE || (is_deferring && !KEEP_DEFERRED) -> y = NONE
    fi;
    if
    :: y != NONE -> printf("@ write %d %d\n", s, y); send_state[s] = done; up[0]!write, s, y
    :: y == NONE && !is_deferring -> emit(s)
    :: y == NONE && (DEFERS || is_deferring) ->
        is_deferring = 1;
        if
        :: KEEP_DEFERRED
        :: else -> forget_all()
        fi
    fi
}

inline stop_deferring() {
    for (s : 0 .. SENDS - 1) {
        if
        :: send_state[s] == deferred -> emit(s)
        :: else
        fi
    }
    is_deferring = 0
}

/* ADVERTISE n has arrived; it depends on the numbers from x on, with credit y. */
inline read_advertise() {
    last = n;
    if
    :: (credits == y || ANY_CREDIT) && (!is_deferring || KEEP_DEFERRED) && (x > forgotten || NO_FROM) ->
        printf("@ keep %d\n", n);
        announced = with(announced, n)
    :: else -> printf("@ void %d\n", n); forget(n)
    fi
}

inline read_down(c) {
    down[c]?down_packet, n, x, y;
    if
    :: down_packet == announce -> read_advertise()
    :: down_packet == credit -> credits = credits + n
    fi
}

proctype Source() {
    end:
    do
    :: atomic { sent < SENDS -> post_send(); step_ends() }
    :: atomic { len(down[0]) > 0 -> read_down(0); step_ends() }
    :: atomic { len(down[1]) > 0 -> read_down(1); step_ends() }
    :: atomic { is_deferring -> stop_deferring(); step_ends() }
    :: atomic { DEFERS && announced != 0 -> forget_all(); step_ends() }
    od
}

/* ---- receiver -------------------------------------------------------------------- */

inline post_receive() {
    r = posted;
    if
    :: want[r] = 0
    :: want[r] = 1
    :: want[r] = ANY
    fi;
    if
    :: may_advertise[r] = 1
    :: may_advertise[r] = 0
    fi;
    receive[r] = open;
    printf("@ post %d %d\n", r, want[r]);
    posted = posted + 1;
    x = NONE;
    for (s : 0 .. SENDS - 1) {
        if
        :: x == NONE && bit_of(unexpected, s) && accepts(r, s) -> x = s
        :: else
        fi
    }
    if
    :: x != NONE -> unexpected = without(unexpected, x); freed = freed + 1; bind(x, r)
    :: else
    fi
}

/* ok: r overlaps no earlier receive that its source does not know.  x: the oldest number on which r
 * depends. */
inline find_blocker(r) {
    ok = 1;
    x = numbered + 1;
    for (k : 0 .. RECEIVES - 1) {
        if
        :: k < r && receive[k] == open && overlap(k, r) ->
            if
            :: number[k] == 0 -> ok = NO_BLOCKER
            :: number[k] != 0 && number[k] < x && !OWN_NUMBER -> x = number[k]
            :: else
            fi
        :: else
        fi
    }
}

inline count_unexpected() {
    y = 0;
    for (k : 0 .. SENDS - 1) {
        if
        :: bit_of(unexpected, k) -> y = y + 1
        :: else
        fi
    }
}

#define is_advertisable(r) ((r) < posted && receive[r] == open && may_advertise[r] && number[r] == 0)

inline advertise_receive(r) {
    find_blocker(r);
    if
    :: ok ->
        numbered = numbered + 1;
        number[r] = numbered;
        receive_of[numbered] = r;
        lockword[r] = free;
        count_unexpected();
        printf("@ announce %d %d\n", r, numbered);
        down[0]!announce, numbered, x, WINDOW - y - freed
    :: else -> may_advertise[r] = 0 /* or later: acts as a receive that is never advertised */
    fi
}

inline close_word(r) {
    ok = lockword[r] != owned || NO_LOCK_WORD;
    if
    :: ok && lockword[r] == free -> lockword[r] = closed
    :: else
    fi
}

inline read_up() {
    up[0]?up_packet, x, y;
    if
    :: up_packet == env ->
        n = NONE;
        for (r : 0 .. RECEIVES - 1) {
            if
            :: n == NONE && receive[r] == open && accepts(r, x) -> n = r
            :: else
            fi
        }
        send_state[x] = done;
        if
        :: n != NONE -> freed = freed + 1; close_word(n); bind(x, n)
        :: else -> unexpected = with(unexpected, x)
        fi
    :: up_packet == write -> bind(x, y)
    fi
}

inline return_credit() {
    down[CREDIT_OVERTAKES]!credit, freed, 0, 0;
    freed = 0
}

#define may_cancel(k) (cancels < CANCELS && (k) < RECEIVES && receive[(k) % RECEIVES] == open)

inline cancel(r) {
    cancels = cancels + 1;
    close_word(r);
    if
    :: ok ->
        printf("@ cancel %d\n", r);
        must(owner[r] == 0, "a cancelled receive was not taken (ONE)");
        receive[r] = cancelled
    :: else
    fi
}

proctype Receiver() {
    end:
    do
    :: atomic { posted < RECEIVES -> post_receive(); step_ends() }
    :: atomic { is_advertisable(0) -> advertise_receive(0); step_ends() }
    :: atomic { RECEIVES > 1 && is_advertisable(1 % RECEIVES) -> advertise_receive(1 % RECEIVES); step_ends() }
    :: atomic { RECEIVES > 2 && is_advertisable(2 % RECEIVES) -> advertise_receive(2 % RECEIVES); step_ends() }
    :: atomic { len(up[0]) > 0 -> read_up(); step_ends() }
    :: atomic { freed > 0 -> return_credit(); step_ends() }
    :: atomic { may_cancel(0) -> cancel(0); step_ends() }
    :: atomic { may_cancel(1) -> cancel(1 % RECEIVES); step_ends() }
    :: atomic { may_cancel(2) -> cancel(2 % RECEIVES); step_ends() }
    od
}

/* ---- the end of a run ------------------------------------------------------------ */

init {
    atomic { run Source(); run Receiver() }
    timeout;
    d_step {
        for (r : 0 .. RECEIVES - 1) {
            must(owner[r] == 0 || got[r] == owner[r], "what was taken is known (S1)");
            for (s : 0 .. SENDS - 1) {
                must(receive[r] != open || bound[s] || !accepts(r, s),
                     "no unmatched send and open receive fit each other (NOLOSS)")
            }
        }
        step_ends()
    }
}
