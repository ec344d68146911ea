/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bias.pml - data that belongs to the first thread that uses it, until a second one comes
 * (src/base/bias.h).
 *
 *   owner                       second thread
 *     inside = 1                  state = revoked
 *     state is owned? go on       membarrier
 *     uses the data               inside is 0? switches the data to a lock, state = shared
 *     inside = 0
 *
 * Any thread may be the first.  Each makes CALLS calls.  In each it uses the data, in the middle
 * of which it may make a nested call; then thread 0 sleeps until thread 1 has made a call.
 *
 * Memory order: what the owner writes by plain stores (`inside`, the data) waits in a buffer,
 * and reaches the memory at any later time, in any order; but a release store of `inside` only
 * after the data.  Its loads read the memory at once.  A membarrier empties the buffer.
 * Compare-and-swap works on the memory itself.
 *
 * Properties (`must` names the one that is violated):
 *
 *   ONE   one thread at a time uses the data, or switches it
 *   DATA  the thread that switches sees everything that the owner has written
 *   ONCE  the data is switched once
 *   S1    when nothing moves any more, all calls have been made
 *
 * Omitted: fork(), a membarrier that fails, a later thread with the identity of one that ended.
 */

/* Sizes. */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef CALLS
#define CALLS 2
#endif

/* Mistakes. */
#ifndef NO_BARRIER /* the second thread makes no membarrier */
#define NO_BARRIER 0
#endif
#ifndef LOAD_FIRST /* the owner looks at the state before it counts itself inside */
#define LOAD_FIRST 0
#endif
#ifndef NO_RELEASE /* the owner leaves by a plain store */
#define NO_RELEASE 0
#endif
#ifndef NO_CLAIM /* a thread looks whether there is an owner, and becomes it in a second step */
#define NO_CLAIM 0
#endif
#ifndef NO_ELECTION /* each later thread that finds no switch switches */
#define NO_ELECTION 0
#endif
#ifndef NO_WAIT /* the second thread does not wait until the owner is outside */
#define NO_WAIT 0
#endif
#ifndef SHARED_EARLY /* others are let in before the data is switched */
#define SHARED_EARLY 0
#endif
#ifndef NESTED_LEAVES /* the end of a nested call counts as the end of the outer one */
#define NESTED_LEAVES 0
#endif
#ifndef NESTED_GIVES_UP /* a nested call that finds a revocation gives the data up */
#define NESTED_GIVES_UP 0
#endif
#ifndef NESTED_YIELDS /* a nested call steps out */
#define NESTED_YIELDS 0
#endif
#ifndef SLEEPS_INSIDE /* the owner does not step out before it sleeps */
#define SLEEPS_INSIDE 0
#endif

#define NOBODY 9 /* owner of data that is shared */

mtype:state = { owned, revoked, shared };

/* ---- memory ---------------------------------------------------------------------- */

byte owner; /* thread + 1; 0: nobody yet */
byte inside;
mtype:state state = owned;
bit is_shared; /* the data is used with the lock */
bit lock;

/* the owner's buffer */
bit has_inside, is_release, has_data;
byte next_inside;

/* ---- the true state -------------------------------------------------------------- */

byte users, switches, over;
bit has_called; /* thread 1 */

#define must(truth, name) \
    if :: (truth) :: else -> printf("broken: "); printf(name); printf("\n"); assert(false) fi

/* ---- the owner's stores ------------------------------------------------------------ */

inline store_inside(value, release) {
    d_step {
        next_inside = value;
        is_release = release && !NO_RELEASE;
        has_inside = 1
    }
}

active proctype buffer() {
end:
    do
    :: d_step { has_inside && !(is_release && has_data) -> inside = next_inside; has_inside = 0 }
    :: d_step { has_data -> has_data = 0 }
    od
}

inline membarrier() {
    d_step {
        if
        :: has_inside && !NO_BARRIER -> inside = next_inside; has_inside = 0
        :: else
        fi;
        if
        :: !NO_BARRIER -> has_data = 0
        :: else
        fi
    }
}

/* ---- entering and leaving ---------------------------------------------------------- */

inline give_up() {
    printf("@ waits %d\n", t);
    depth = 0;
    store_inside(0, 1);
    state == shared
}

inline count() {
    if
    :: LOAD_FIRST -> seen = state; depth++; store_inside(depth, 0)
    :: else -> depth++; store_inside(depth, 0); seen = state
    fi;
    printf("@ counts %d %d\n", t, depth);
    if
    :: seen == owned
    :: seen != owned && depth > 1 && !NESTED_GIVES_UP
    :: else -> give_up()
    fi
}

inline switch_data() {
    d_step {
        must(switches == 0, "the data is switched once (ONCE)");
        must(users == 0, "nobody uses the data while it is switched (ONE)");
        must(!has_data, "the switch sees all that the owner wrote (DATA)");
        users++;
        switches++
    }
    printf("@ switches %d\n", t);
    d_step { is_shared = 1; users-- }
}

inline take_away() {
    printf("@ revokes %d\n", t);
    membarrier();
    if
    :: NO_WAIT
    :: !NO_WAIT && inside == 0
    fi;
    if
    :: SHARED_EARLY -> owner = NOBODY; state = shared; switch_data()
    :: else -> switch_data(); owner = NOBODY; state = shared
    fi
}

inline claim() {
    if
    :: NO_CLAIM ->
        mine = (owner == 0);
        if
        :: mine -> owner = t + 1
        :: else
        fi
    :: else ->
        d_step {
            mine = (owner == 0);
            if
            :: mine -> owner = t + 1
            :: else
            fi
        }
    fi
}

inline revoke() {
    d_step {
        elected = (state == owned) || (NO_ELECTION && state == revoked);
        if
        :: elected -> state = revoked
        :: else
        fi
    }
    if
    :: elected -> take_away()
    :: else -> state == shared
    fi
}

inline enter() {
    mine = (owner == t + 1);
    if
    :: !mine && state != shared ->
        claim();
        if
        :: mine
        :: else -> revoke()
        fi
    :: else
    fi;
    if
    :: mine -> count()
    :: else
    fi
}

inline leave() {
    if
    :: owner == t + 1 ->
        depth = (NESTED_LEAVES -> 0 : depth - 1);
        printf("@ leaves %d %d\n", t, depth);
        store_inside(depth, 1)
    :: else
    fi
}

inline step_out() {
    out = (owner == t + 1) && (depth == 1 || NESTED_YIELDS);
    if
    :: out -> printf("@ steps %d\n", t); depth = 0; store_inside(0, 1)
    :: else
    fi
}

inline step_in() {
    if
    :: out -> enter()
    :: else
    fi
}

/* ---- a call -------------------------------------------------------------------------- */

inline nested() {
    enter();
    step_out();
    step_in();
    leave()
}

inline use() {
    if
    :: is_shared -> d_step { lock == 0 -> lock = 1 }; locked = 1
    :: else
    fi;
    printf("@ uses %d\n", t);
    d_step {
        must(users == 0, "one thread at a time uses the data (ONE)");
        users++;
        has_data = !locked
    }
    if
    :: true
    :: nested()
    fi;
    d_step {
        users--;
        if
        :: locked -> lock = 0; locked = 0
        :: else
        fi
    }
}

inline sleep() {
    if
    :: !SLEEPS_INSIDE -> step_out()
    :: else -> out = 0
    fi;
    has_called;
    step_in()
}

proctype thread(byte t) {
    byte calls, depth;
    bit mine, elected, out, locked;
    mtype:state seen = owned;

    do
    :: calls < CALLS ->
        calls++;
        enter();
        use();
        if
        :: t == 0 && calls == 1 -> sleep()
        :: else
        fi;
        leave();
        if
        :: t == 1 -> has_called = 1
        :: else
        fi
    :: else -> break
    od;
    over++
}

init {
    byte i;

    atomic {
        for (i : 0 .. THREADS - 1) {
            run thread(i)
        }
    }
    timeout;
    must(over == THREADS, "all calls are made (S1)")
}
