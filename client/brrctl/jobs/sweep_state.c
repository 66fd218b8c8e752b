#include "client/brrctl/jobs/sweep_state.h"

const char *sweep_value(const struct sweep *s, int point, int axis) {
    for (int i = s->n_axes - 1; i > axis; i--)
        point /= s->axes[i].n;
    return s->axes[axis].values[point % s->axes[axis].n];
}

void sweep_fold_text(const struct sweep *s, int fold, const char *quote, struct str *out) {
    for (int i = fold; i < s->n_patients; i += s->n_folds)
        str_printf(out, "%s%s%s%s", i == fold ? "" : ", ", quote, s->patients[i], quote);
}
