/* civil: dates and times of day as recordings and label files state them, without a time zone. Pure functions; any thread. */
#pragma once
#include "base/base.h"

struct civil {
    int year, month, day, hour, minute; /* month and day from 1 */
    double second;
};

/* True for a day of the calendar, in the years 1 to 9999. */
bool civil_is_date(int year, int month, int day);
/* Month 1 to 12 of "jan", "Feb", … (the first three letters count, in any case); 0 for others. */
int civil_month(const char *name);
/* Seconds from 1970-01-01 00:00:00; at least to the microsecond. */
double civil_seconds(const struct civil *at);
/* Reads "YYYY-MM-DD HH:MM:SS", also with a T between, a fraction, and a zone ("Z", "+01:00"), which is subtracted. Blanks around
 * are skipped. */
bool civil_parse(const char *text, double *ret_seconds);
/* True if a text that civil_parse reads has a zone. */
bool civil_has_zone(const char *text);
