/* rate: the exact sampling rate that a recorder wrote as a decimal number. Pure functions, any thread. */
#pragma once
#include "base/base.h"

/* The largest terms of a rate in lowest terms that dsp.h resamples. */
enum { RATE_MOST_NUM = 1 << 24, RATE_MOST_DEN = 1 << 16 };

struct exact_rate {
    int64_t num, den; /* Hz, in lowest terms */
    bool approximate; /* no fraction with such terms is within the digits of the text; within 1e-9 of it */
};

/* The rate of a text in Hz, or, `interval`, in microseconds between two samples. A decimal may be a rounded one: a whole number of
 * Hz within half a unit of its last digit (and 2 ulp of a double) is the rate, and so is the simplest fraction there if it is far
 * simpler than the decimal itself: "3333.333" µs are 300 Hz, "341.33" Hz are 1024/3, "255.99" are 25599/100. False for what is no
 * such number, or none from 1e-9 to 1e9 Hz. */
bool rate_of_decimal(const char *text, bool interval, struct exact_rate *ret);
/* The same of a record of so many samples, from 1, whose duration in seconds the text states: "0.003333" of one is 300 Hz. */
bool rate_of_records(const char *duration, int64_t samples, struct exact_rate *ret);
/* The same of a number of a binary file, which had a float or a double for it. */
bool rate_of_number(double hz, bool single, struct exact_rate *ret);

/* The greatest common divisor. */
int64_t rate_divisor(int64_t a, int64_t b);
