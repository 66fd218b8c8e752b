#include "burst/burst_data.h"

void burst_state_done(struct burst_state *state) {
    FREE_MEMBERS(*state, v, current, countdown, fire_count, psp, alive, divisor, fired_ids, pending, arriving, ledger_fired,
                 ledger_ids);
    *state = (struct burst_state){0};
}
