/* SPDX-License-Identifier: BSD-3-Clause */
/* defer_mistakes.pml - what the processes of defer.pml can be made to do wrong. */

#ifndef ANY_RTR /* a claim is for any receive that accepts the send */
#define ANY_RTR 0
#endif
#ifndef ANY_SEND /* a claim is for any send that the receive accepts */
#define ANY_SEND 0
#endif
#ifndef CLAIMED_ABSENT /* what is claimed does not count for the next claim */
#define CLAIMED_ABSENT 0
#endif
#ifndef WILDCARDS_ONLY /* only receives from any source are advertised */
#define WILDCARDS_ONLY 0
#endif
#ifndef BACKWARDS /* DEFER is answered with the youngest receive first */
#define BACKWARDS 0
#endif
#ifndef LIMIT /* at most so many open receives are advertised to a deferring source at a time */
#define LIMIT RECEIVES
#endif
#ifndef FORGET_RTR /* an RTR that no deferred send fits is not kept */
#define FORGET_RTR 0
#endif
#ifndef LOSER_LAST /* a send that lost its claim goes behind the others */
#define LOSER_LAST 0
#endif
#ifndef NO_EPOCH /* an RTR counts, whatever it answers */
#define NO_EPOCH 0
#endif
#ifndef KEEP_RTRS /* emitting leaves the list of RTRs as it is */
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
#ifndef PAYLOAD_FREE /* a payload rides along without a credit */
#define PAYLOAD_FREE 0
#endif
#ifndef PAYLOAD_GIFT /* an envelope that came alone returns a payload credit */
#define PAYLOAD_GIFT 0
#endif
#ifndef PAYLOAD_WAITS /* an envelope waits for a payload credit */
#define PAYLOAD_WAITS 0
#endif
#ifndef PAYLOAD_AT_MATCH /* a matched probe returns the payload credit while the payload stays */
#define PAYLOAD_AT_MATCH 0
#endif
#ifndef PEEK_CLAIMED /* PEEK passes over claimed sends */
#define PEEK_CLAIMED 0
#endif
#ifndef PEEK_EPOCH /* PEEK is answered in any epoch */
#define PEEK_EPOCH 0
#endif
#ifndef PEEK_TRUSTED /* an answer is believed though a receive was posted since */
#define PEEK_TRUSTED 0
#endif
#ifndef PEEK_ONE /* one deferring source is asked */
#define PEEK_ONE 0
#endif
#ifndef PROBE_PASSED /* envelopes pass by a matched probe that waits */
#define PROBE_PASSED 0
#endif
#ifndef PROBE_WRITES /* the grant of a matched probe lets the data come */
#define PROBE_WRITES 0
#endif
#ifndef SHUT_LATE /* receives fail before the way of the data is shut */
#define SHUT_LATE 0
#endif
#ifndef WAIT_FOR_DEAD /* receives from a dead source wait on */
#define WAIT_FOR_DEAD 0
#endif
#ifndef OPEN_AGAIN /* a receive whose owner died is open again */
#define OPEN_AGAIN 0
#endif
#ifndef FETCH_FROM_DEAD /* a dead source is asked for a payload */
#define FETCH_FROM_DEAD 0
#endif
#ifndef CLAIM_OUTLIVES /* a claim at a dead receiver waits on */
#define CLAIM_OUTLIVES 0
#endif
