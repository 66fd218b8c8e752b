/* chart: the drawings of the pages as inline SVG, which take their colours from page.css. One thread per object. */
#pragma once
#include "daemon/page/html.h"
#include "daemon/status/status.h"

enum { CHART_PATH_SIZE = 1400, CHART_HEIGHT_SIZE = 8, CHART_WIDTH = 120, CHART_HEIGHT = 32 };

/* The last minute of a stream as the `d` of an SVG path in a box of CHART_WIDTH × CHART_HEIGHT, 1 at the top. "M0 0" when there is
 * no point. Returns path. */
const char *chart_minute(const float minute[STATUS_MINUTE], char path[CHART_PATH_SIZE]);
/* The height of one of its points: "16.0" of .5. Returns text. */
const char *chart_height(double p, char text[CHART_HEIGHT_SIZE]);
/* The last minute with its box, the line of the threshold (0: none) and a text for those who cannot see it. */
void chart_put_minute(struct html *h, const struct status_stream *s);

/* A time at which something was on, as shares of the width, 0..1. */
struct chart_span {
    double from, to;
    bool event; /* below the curve; else an alarm, behind it */
};
struct chart_hours {
    const float *points; /* of a stream's past, PAST_STEP_MS apart; the last one is now */
    int n;
    double on; /* threshold, 0: none */
    const struct chart_span *spans;
    int n_spans;
};
/* Probability over the last minutes or hours, with alarms and events. */
void chart_put_hours(struct html *h, const struct chart_hours *c);

struct chart_series {
    const char *name;
    const double *x, *y; /* ascending x; NaN is left out */
    int n;
};
/* Curves over one axis; zero: the y axis begins at 0 and ends at `top` or, if that is 0, at the highest value. */
void chart_put_curves(struct html *h, const struct chart_series *series, int n, double top);
/* A small curve without axes. */
void chart_put_spark(struct html *h, const float *values, int n, const char *what);

/* The electrodes of the 10-20 system on a head, each with its quality. False when fewer than four of the channels are there. */
bool chart_put_head(struct html *h, const struct status_channel *channels, int n);
