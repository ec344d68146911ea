/* SPDX-License-Identifier: BSD-3-Clause */
/* defer_mistakes.pml - options that make the processes of defer.pml do something wrong. */

#ifndef ANY_RTR /* a claim is for any receive that accepts the send */
#define ANY_RTR 0
#endif
#ifndef ANY_SEND /* a claim is for any send that the receive accepts */
#define ANY_SEND 0
#endif
#ifndef CLAIMED_ABSENT /* a claimed send or receive does not count for the next claim */
#define CLAIMED_ABSENT 0
#endif
#ifndef WILDCARDS_ONLY /* only receives from any source are advertised */
#define WILDCARDS_ONLY 0
#endif
#ifndef BACKWARDS /* DEFER is answered with the youngest receive first */
#define BACKWARDS 0
#endif
#ifndef LIMIT /* maximum number of open receives advertised to a deferring source at a time */
#define LIMIT RECEIVES
#endif
#ifndef FORGET_RTR /* an RTR that no deferred send fits is not kept */
#define FORGET_RTR 0
#endif
#ifndef LOSER_LAST /* a send that lost its claim is ordered after the others */
#define LOSER_LAST 0
#endif
#ifndef NO_EPOCH /* an RTR counts in any epoch */
#define NO_EPOCH 0
#endif
#ifndef KEEP_RTRS /* emitting does not clear the list of RTRs */
#define KEEP_RTRS 0
#endif
#ifndef LATER_ONLY /* DEFER is not answered; only receives posted later are advertised */
#define LATER_ONLY 0
#endif
#ifndef EMIT_IN_CLAIM /* envelopes are emitted while a claim is out */
#define EMIT_IN_CLAIM 0
#endif
#ifndef ONE_DEFERRER /* a receive is advertised to one deferring source */
#define ONE_DEFERRER 0
#endif
#ifndef PAST_DEFERRED /* a send is emitted past a deferred one */
#define PAST_DEFERRED 0
#endif
#ifndef FORGET_RETIRE /* no RETIRE for a cancelled receive goes to the deferring sources */
#define FORGET_RETIRE 0
#endif
#ifndef CREDIT_AT_ARRIVAL /* an envelope's credit is returned when it arrives */
#define CREDIT_AT_ARRIVAL 0
#endif
#ifndef PAYLOAD_FREE /* a payload is sent without a credit */
#define PAYLOAD_FREE 0
#endif
#ifndef PAYLOAD_GIFT /* an envelope without payload returns a payload credit */
#define PAYLOAD_GIFT 0
#endif
#ifndef PAYLOAD_WAITS /* an envelope waits for a payload credit */
#define PAYLOAD_WAITS 0
#endif
#ifndef PAYLOAD_AT_MATCH /* a matched probe returns the payload credit while the payload stays */
#define PAYLOAD_AT_MATCH 0
#endif
#ifndef PEEK_CLAIMED /* PEEK skips claimed sends */
#define PEEK_CLAIMED 0
#endif
#ifndef PEEK_EPOCH /* PEEK is answered in any epoch */
#define PEEK_EPOCH 0
#endif
#ifndef PEEK_TRUSTED /* an answer is used though a receive was posted since */
#define PEEK_TRUSTED 0
#endif
#ifndef PEEK_ONE /* only one deferring source is asked */
#define PEEK_ONE 0
#endif
#ifndef PROBE_PASSED /* envelopes pass a matched probe that waits */
#define PROBE_PASSED 0
#endif
#ifndef PROBE_WRITES /* the grant of a matched probe lets the data be written */
#define PROBE_WRITES 0
#endif
#ifndef SHUT_LATE /* receives fail before the path of the data is shut */
#define SHUT_LATE 0
#endif
#ifndef WAIT_FOR_DEAD /* receives from a dead source wait on */
#define WAIT_FOR_DEAD 0
#endif
#ifndef OPEN_AGAIN /* a receive whose owner died is open again */
#define OPEN_AGAIN 0
#endif
#ifndef FETCH_FROM_DEAD /* the receiver requests a payload from a dead source */
#define FETCH_FROM_DEAD 0
#endif
#ifndef CLAIM_OUTLIVES /* a claim at a dead receiver is not given up */
#define CLAIM_OUTLIVES 0
#endif
