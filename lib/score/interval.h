/* interval: 95 % confidence intervals of counts, for figures that rest on few of them. Pure arithmetic; any thread. */
#pragma once

struct interval {
    double low, high;
};
/* Of a share: `found` of `of`, by Wilson's score; 0 to 1 without any. */
struct interval interval_share(double found, double of);
/* Of a count of rare events, by Byar's approximation of the exact Poisson limits; divide by the time for a rate. */
struct interval interval_count(double count);
