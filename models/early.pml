/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * early.pml - receives that their source knows before it sends (ANNOUNCE), beside messages that come
 * by themselves.
 *
 *   source                    word of r          receiver
 *
 *                             open               tells r: its number, the oldest one that it
 *   keeps r, or not                              stands or falls with, and the credit that the
 *   a send suits r: takes     taken              source must have if nothing is under way
 *   the word, WRITE                              WRITE: r leaves the engine
 *                             closed             cancels r, or a message met it
 *
 * Steps, each of them one atomic action.  The source: sends, which compares with what it was told;
 * reads one message; leaves its hold; drops what it knows.  The receiver: posts; tells of any open
 * receive that nothing stands before; reads one message; returns credit; cancels.
 *
 * What is left out: the window never ends, and a send is held because the source likes it so; RTR
 * and CLAIM (reach_through.pml) decide then, here the hold just ends.  A receive that is not told
 * stands for all that never are: for any source, short, or left out for some time.  How the data
 * is written: when the word is taken the message is matched.
 *
 * What must hold (`must` names it when it does not), when the receiver reads the message that
 * binds send s and receive r, an envelope or WRITE:
 *
 *   V1   no earlier unmatched send is accepted by r
 *   V2   no earlier open receive accepts s
 *   ONE  a send is bound once, and so is a receive; a cancelled one never; and at all times only
 *        an open receive is taken
 *
 * The order is that of what the receiver reads: when a word is taken, an earlier short message
 * may still be on its way to an earlier receive that would accept this one, too.
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
#ifndef CANCELS /* how many receives the user may cancel */
#define CANCELS 0
#endif
#ifndef HOLDS /* the source may hold, and drop what it knows */
#define HOLDS 0
#endif
#ifndef SHORTS /* some messages are short: they are never written */
#define SHORTS 0
#endif

/* What is done wrong. */
#ifndef ANY_CREDIT /* what is told counts though messages are under way */
#define ANY_CREDIT 0
#endif
#ifndef CREDIT_OVERTAKES /* credit does not keep the order of the other messages */
#define CREDIT_OVERTAKES 0
#endif
#ifndef NO_BLOCKER /* a receive is told though its source does not know an earlier one */
#define NO_BLOCKER 0
#endif
#ifndef NO_FROM /* the source does not look whether it has forgotten an earlier one */
#define NO_FROM 0
#endif
#ifndef ITSELF /* only the receive itself is named, not the oldest that overlaps */
#define ITSELF 0
#endif
#ifndef NO_NUMBER /* void ones are not remembered */
#define NO_NUMBER 0
#endif
#ifndef NO_COMPARE /* a send may leave without a look at what is known */
#define NO_COMPARE 0
#endif
#ifndef KEEP_SHORT /* a receive stays known though a short message will meet it */
#define KEEP_SHORT 0
#endif
#ifndef SUITS_ONLY /* for a short message that is forgotten which suits it, and nothing behind */
#define SUITS_ONLY 0
#endif
#ifndef KEEP_HELD /* receives are kept while sends are held */
#define KEEP_HELD 0
#endif
#ifndef NO_WORD /* nothing stands between a cancel and the source */
#define NO_WORD 0
#endif

#define ANY 2
#define NONE 9
#define ROOM 12
#define WINDOW SENDS

/* ---- state ----------------------------------------------------------------------- */

mtype:send = { future, held, away, over };
mtype:receive = { absent, open, taken, cancelled };
mtype:word = { unset, free, owned, closed };
mtype:up = { env, write };
mtype:down = { early, credit };

chan up[1] = [ROOM] of { mtype:up, byte, byte };
chan down[2] = [ROOM] of { mtype:down, byte, byte, byte }; /* [1]: beside the order of the other */

/* source */
byte sent, credits = WINDOW;
mtype:send at[SENDS] = future;
bit tag[SENDS], is_short[SENDS];
bit holding;
byte known;             /* numbers of receives, one bit for each */
byte last, forgotten;   /* numbers */

/* receiver */
byte posted, kept, freed, cancels;
mtype:receive receive[RECEIVES] = absent;
byte want[RECEIVES];
bit may_tell[RECEIVES];
byte number[RECEIVES];  /* as which it was told, from 1; 0: it was not */
byte numbered;

/* both */
mtype:word word[RECEIVES] = unset;
byte told[RECEIVES + 1]; /* the receive of a number: what ANNOUNCE says of it */

/* what is true, whoever knows it */
byte owner[RECEIVES];         /* the send that took its word, from 1 */
byte got[RECEIVES], bound[SENDS];

/* Used within one step only. */
byte k, n, s, r, x, y, z;
bit ok;
mtype:up said;
mtype:down heard;

inline step_ends() { k = 0; n = 0; s = 0; r = 0; x = 0; y = 0; z = 0; ok = 0; said = 0; heard = 0 }

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
    receive[r] = taken
}

/* ---- source ---------------------------------------------------------------------- */

inline forget(n) {
    if
    :: !NO_NUMBER && n > forgotten -> forgotten = n
    :: else
    fi
}

inline drop() { forget(last); known = 0 }

inline emit(s) { printf("@ emit %d\n", s); at[s] = away; credits = credits - 1; up[0]!env, s, 0 }

/* Those of z are forgotten, and may be open: so are those behind that overlap with one of them. */
inline forget_behind() {
    for (n : 1 .. RECEIVES) {
        for (k : 1 .. RECEIVES) {
            if
            :: k < n && bit_of(z, k) && bit_of(known, n) && overlap(told[k], told[n]) ->
                forget(n);
                known = without(known, n);
                z = with(z, n)
            :: else
            fi
        }
    }
}

/* The receive that send s goes into: y, or NONE. */
inline take(s) {
    y = NONE;
    for (n : 1 .. RECEIVES) {
        if
        :: y == NONE && bit_of(known, n) && accepts(told[n], s) ->
            x = told[n];
            if
            :: is_short[s] && !KEEP_SHORT -> forget(n); known = without(known, n); z = with(z, n)
            :: is_short[s] && KEEP_SHORT
            :: !is_short[s] ->
                known = without(known, n);
                if
                :: word[x] == free || NO_WORD ->
                    must(receive[x] == open && owner[x] == 0, "only an open receive is taken (ONE)");
                    word[x] = owned;
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
    at[s] = held;
    printf("@ send %d %d\n", s, tag[s]);
    if
    :: !holding || KEEP_HELD -> take(s)
    :: NO_COMPARE || (holding && !KEEP_HELD) -> y = NONE
    fi;
    if
    :: y != NONE -> printf("@ write %d %d\n", s, y); at[s] = over; up[0]!write, s, y
    :: y == NONE && !holding -> emit(s)
    :: y == NONE && (HOLDS || holding) ->
        holding = 1;
        if
        :: KEEP_HELD
        :: else -> drop()
        fi
    fi
}

inline leave() {
    for (s : 0 .. SENDS - 1) {
        if
        :: at[s] == held -> emit(s)
        :: else
        fi
    }
    holding = 0
}

/* Number n was told, which stands or falls with those from x on, with credit y. */
inline keep_or_void() {
    last = n;
    if
    :: (credits == y || ANY_CREDIT) && (!holding || KEEP_HELD) && (x > forgotten || NO_FROM) ->
        printf("@ keep %d\n", n);
        known = with(known, n)
    :: else -> printf("@ void %d\n", n); forget(n)
    fi
}

inline read_down(c) {
    down[c]?heard, n, x, y;
    if
    :: heard == early -> keep_or_void()
    :: heard == credit -> credits = credits + n
    fi
}

proctype Source() {
    end:
    do
    :: atomic { sent < SENDS -> post_send(); step_ends() }
    :: atomic { len(down[0]) > 0 -> read_down(0); step_ends() }
    :: atomic { len(down[1]) > 0 -> read_down(1); step_ends() }
    :: atomic { holding -> leave(); step_ends() }
    :: atomic { HOLDS && known != 0 -> drop(); step_ends() }
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
    :: may_tell[r] = 1
    :: may_tell[r] = 0
    fi;
    receive[r] = open;
    printf("@ post %d %d\n", r, want[r]);
    posted = posted + 1;
    x = NONE;
    for (s : 0 .. SENDS - 1) {
        if
        :: x == NONE && bit_of(kept, s) && accepts(r, s) -> x = s
        :: else
        fi
    }
    if
    :: x != NONE -> kept = without(kept, x); freed = freed + 1; bind(x, r)
    :: else
    fi
}

/* Nothing stands before r that its source does not know: ok.  x: the oldest number that it
 * stands or falls with. */
inline look_before(r) {
    ok = 1;
    x = numbered + 1;
    for (k : 0 .. RECEIVES - 1) {
        if
        :: k < r && receive[k] == open && overlap(k, r) ->
            if
            :: number[k] == 0 -> ok = NO_BLOCKER
            :: number[k] != 0 && number[k] < x && !ITSELF -> x = number[k]
            :: else
            fi
        :: else
        fi
    }
}

inline count_kept() {
    y = 0;
    for (k : 0 .. SENDS - 1) {
        if
        :: bit_of(kept, k) -> y = y + 1
        :: else
        fi
    }
}

#define is_tellable(r) ((r) < posted && receive[r] == open && may_tell[r] && number[r] == 0)

inline tell(r) {
    look_before(r);
    if
    :: ok ->
        numbered = numbered + 1;
        number[r] = numbered;
        told[numbered] = r;
        word[r] = free;
        count_kept();
        printf("@ tell %d %d\n", r, numbered);
        down[0]!early, numbered, x, WINDOW - y - freed
    :: else -> may_tell[r] = 0 /* or later: the same as a receive that is never told */
    fi
}

inline close(r) {
    ok = word[r] != owned || NO_WORD;
    if
    :: ok && word[r] == free -> word[r] = closed
    :: else
    fi
}

inline read_up() {
    up[0]?said, x, y;
    if
    :: said == env ->
        n = NONE;
        for (r : 0 .. RECEIVES - 1) {
            if
            :: n == NONE && receive[r] == open && accepts(r, x) -> n = r
            :: else
            fi
        }
        at[x] = over;
        if
        :: n != NONE -> freed = freed + 1; close(n); bind(x, n)
        :: else -> kept = with(kept, x)
        fi
    :: said == write -> bind(x, y)
    fi
}

inline return_credit() {
    down[CREDIT_OVERTAKES]!credit, freed, 0, 0;
    freed = 0
}

#define may_cancel(k) (cancels < CANCELS && (k) < RECEIVES && receive[(k) % RECEIVES] == open)

inline cancel(r) {
    cancels = cancels + 1;
    close(r);
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
    :: atomic { is_tellable(0) -> tell(0); step_ends() }
    :: atomic { RECEIVES > 1 && is_tellable(1 % RECEIVES) -> tell(1 % RECEIVES); step_ends() }
    :: atomic { RECEIVES > 2 && is_tellable(2 % RECEIVES) -> tell(2 % RECEIVES); step_ends() }
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
