#include "formats/rate.h"

typedef unsigned __int128 wide;

enum { MOST_DIGITS = 17, MOST_POWER = 18, PARTS = 1024 /* of a unit of the last digit */ };
static const uint64_t MICROSECONDS = 1000000;

/* digits / 10^power, more than 0; power may be negative. */
static bool parse_decimal(const char *text, uint64_t *ret_digits, int *ret_power) {
    uint64_t digits = 0;
    int power = 0, n = 0;
    bool fraction = false;
    const char *c = text + strspn(text, " \t");
    c += *c == '+';
    for (; (*c >= '0' && *c <= '9') || (!fraction && (*c == '.' || *c == ',')); c++) {
        if (*c == '.' || *c == ',') {
            fraction = true;
        } else if (n < MOST_DIGITS) {
            digits = 10 * digits + (uint64_t)(*c - '0');
            n += digits > 0;
            power += fraction;
        } else {
            power -= !fraction;
        }
    }
    if (*c == 'e' || *c == 'E') {
        int64_t exponent;
        const char *from = c + 1 + (c[1] == '+');
        if (!str_to_i64(from, &exponent) || exponent < -MOST_POWER || exponent > MOST_POWER)
            return false;
        power -= (int)exponent;
    } else if (*c) {
        return false;
    }
    *ret_digits = digits;
    *ret_power = power;
    return digits > 0 && power >= -9 && power <= 2 * MOST_POWER;
}

int64_t rate_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static wide ten_to(int power) {
    wide ten = 1;
    while (power-- > 0)
        ten *= 10;
    return ten;
}

struct fraction {
    wide num, den;
};

static struct fraction reduced(struct fraction f) {
    wide a = f.num, b = f.den;
    while (b) {
        wide rest = a % b;
        a = b;
        b = rest;
    }
    return a ? (struct fraction){f.num / a, f.den / a} : f;
}

static bool is_small(struct fraction f) { return f.num && f.den && f.num <= RATE_MOST_NUM && f.den <= RATE_MOST_DEN; }

/* The fraction with the smallest terms from low to high, by continued fractions; {0, 0} where they are beyond what fits. */
static struct fraction simplest(struct fraction low, struct fraction high) {
    struct fraction before = {0, 1}, at = {1, 0};
    for (;;) {
        const wide whole = low.num / low.den, rest = low.num % low.den;
        const bool last = !rest || whole < high.num / high.den;
        const wide term = whole + (last && rest ? 1 : 0);
        if (term > RATE_MOST_NUM)
            return (struct fraction){0, 0};
        const struct fraction next = {term * at.num + before.num, term * at.den + before.den};
        if (last)
            return next;
        if (next.num > RATE_MOST_NUM || next.den > RATE_MOST_DEN)
            return (struct fraction){0, 0};
        before = at;
        at = next;
        const struct fraction upper = {high.den, high.num - whole * high.den};
        high = (struct fraction){low.den, rest};
        low = upper;
    }
}

/* The last convergent that fits. */
static struct fraction nearest(struct fraction exact) {
    struct fraction before = {0, 1}, at = {1, 0};
    for (wide a = exact.num, b = exact.den, rest; b; a = b, b = rest) {
        rest = a % b;
        const wide term = a / b;
        if (term > RATE_MOST_NUM)
            break;
        const struct fraction next = {term * at.num + before.num, term * at.den + before.den};
        if (!is_small(next) && next.num)
            break;
        before = at;
        at = next;
    }
    return at;
}

/* A rate, and the bounds of the numbers for which its text may stand. */
struct bounds {
    struct fraction exact, low, high;
};

/* The number that is meant may be the text's up to half a unit, and up to 2 ulp of the number that a program printed. per:
 * the rate is per / text; 0: it is the text. */
static struct bounds bounds_of(uint64_t digits, int power, uint64_t per, int ulp_bits) {
    const wide up = ten_to(power > 0 ? power : 0) * PARTS, down = ten_to(power < 0 ? -power : 0), parts = (wide)digits * PARTS;
    const wide half = PARTS / 2 + (parts >> ulp_bits) + 1;
    const wide at[] = {parts * down, (parts - half) * down, (parts + half) * down};
    if (!per)
        return (struct bounds){reduced((struct fraction){at[0], up}), {at[1], up}, {at[2], up}};
    return (struct bounds){reduced((struct fraction){up * per, at[0]}), {up * per, at[2]}, {up * per, at[1]}};
}

/* The only whole number within the bounds, or 0. */
static wide only_whole(const struct bounds *b) {
    const wide least = (b->low.num + b->low.den - 1) / b->low.den;
    return least * b->high.den <= b->high.num && (least + 1) * b->high.den > b->high.num && least <= RATE_MOST_NUM ? least : 0;
}

/* Written shortly: zeros may be left out. */
static struct fraction meant(const struct bounds *wide_bounds, const struct bounds *narrow, bool *ret_approximate) {
    const struct fraction exact = wide_bounds->exact;
    const wide close = only_whole(narrow), whole = close ? close : only_whole(wide_bounds);
    *ret_approximate = false;
    if (whole)
        return (struct fraction){whole, 1};
    struct fraction f = simplest(wide_bounds->low, wide_bounds->high);
    if (is_small(f) && f.den > 1 && (!is_small(exact) || 4 * f.den * f.den <= exact.den))
        return f;
    *ret_approximate = !is_small(exact);
    return is_small(exact) ? exact : nearest(exact);
}

static bool rate_within(const char *text, uint64_t per, int ulp_bits, struct exact_rate *ret) {
    uint64_t digits, padded;
    int power, zeros = 0;
    if (!parse_decimal(text, &digits, &power) || power > 21)
        return false;
    for (padded = digits; padded < 100000; padded *= 10)
        zeros++;
    const struct bounds as_written = bounds_of(digits, power, per, ulp_bits),
                        six_digits = bounds_of(padded, power + zeros, per, ulp_bits);
    const double value = (double)as_written.exact.num / (double)as_written.exact.den;
    const struct fraction f = meant(&as_written, &six_digits, &ret->approximate);
    if (!(value >= 1e-9 && value <= 1e9) || !is_small(f) ||
        (ret->approximate && fabs((double)f.num / (double)f.den / value - 1) > 1e-9))
        return false;
    ret->num = (int64_t)f.num;
    ret->den = (int64_t)f.den;
    return true;
}

bool rate_of_decimal(const char *text, bool interval, struct exact_rate *ret) {
    return rate_within(text, interval ? MICROSECONDS : 0, 51, ret);
}

bool rate_of_records(const char *duration, int64_t samples, struct exact_rate *ret) {
    return samples > 0 && samples <= INT32_MAX && rate_within(duration, (uint64_t)samples, 51, ret);
}

bool rate_of_number(double hz, bool single, struct exact_rate *ret) {
    char text[40];
    str_format(text, sizeof text, single ? "%.8g" : "%.17g", hz);
    return rate_within(text, 0, single ? 22 : 51, ret);
}
