#include "base/grow.h"
#include "base/order.h"
#include "brr-load/load.h"

void times_add(struct times *t, double ms) {
    if (!GROW(t->ms, t->n, t->capacity))
        abort(); /* figures without some of their times would be wrong */
    t->ms[t->n++] = (float)ms;
}

void times_join(struct times *to, struct times *from) {
    for (int64_t i = 0; i < from->n; i++)
        times_add(to, (double)from->ms[i]);
    free(from->ms);
    *from = (struct times){0};
}

double times_quantile(struct times *t, double q) {
    if (!t->n)
        return NAN;
    SORT(t->ms, t->n, order_f32s);
    return (double)t->ms[(int64_t)ceil(q * (double)t->n) - (q > 0)];
}
