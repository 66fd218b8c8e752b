#include "score/interval.h"

#include "base/base.h"

static const double Z = 1.959963984540054; /* of the normal distribution, for 95 % */

struct interval interval_share(double found, double of) {
    if (!(of > 0))
        return (struct interval){0, 1};
    double p = found / of, spread = Z * Z / of, middle = p + spread / 2;
    double half = Z * sqrt(p * (1 - p) / of + spread / of / 4);
    return (struct interval){fmax(0, (middle - half) / (1 + spread)), fmin(1, (middle + half) / (1 + spread))};
}

/* n(1 - 1/9n -+ Z/(3 sqrt n))^3 */
static double byar(double n, double z) { return n * pow(1 - 1 / (9 * n) + z / (3 * sqrt(n)), 3); }

struct interval interval_count(double count) {
    return (struct interval){count > 0 ? fmax(0, byar(count, -Z)) : 0, byar(count + 1, Z)};
}
