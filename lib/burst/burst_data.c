#include "burst/burst_data.h"

#include <stdlib.h>

void burst_state_done(struct burst_state *state) {
    free(state->v);
    free(state->current);
    free(state->countdown);
    free(state->fire_count);
    free(state->psp);
    free(state->alive);
    free(state->divisor);
    free(state->fired_ids);
    free(state->pending);
    free(state->arriving);
    free(state->ledger_fired);
    free(state->ledger_ids);
    *state = (struct burst_state){0};
}
