/* svg: writes SVG text for plot/plot: escaped text, shapes in tenths of a pixel, round axis steps. One thread per object. */
#pragma once

#include "base/base.h"

enum { SVG_MAX_BYTES = 64 << 20 };

struct svg {
    struct str out;
};
/* Opens the document: white ground, sans-serif. label is the text alternative of the picture. */
void svg_open(struct svg *g, double width, double height, const char *label);
/* Closes it and writes the file (atomic), as PNG or PDF if its name says so (plot/picture.h). Always frees g. */
int svg_save(struct svg *g, const char *path, struct err *err);
/* Closes it and appends it to a text. Always frees g. */
int svg_append(struct svg *g, struct str *out, struct err *err);

/* Text content with markup escaped; invalid UTF-8 and control characters become '?'. */
void svg_escape(struct svg *g, const char *text);
/* class: "title" "muted" "name" "tick"; "line0" to "line7" for strokes, "key0" to "key7" for fills of the same colours, with "band"
 * pale ones; anchor: "start" "middle" "end". */
void svg_text(struct svg *g, double x, double y, const char *class, const char *anchor, const char *text);
/* Text that runs upwards, its middle at (x, y), for the name of a vertical axis. */
void svg_text_up(struct svg *g, double x, double y, const char *class, const char *text);
/* A line of names from (x, y) on, each behind a dash in the colour of class "lineI", I from 0. */
void svg_legend(struct svg *g, double x, double y, const char *const *names, int n);
void svg_line(struct svg *g, double x1, double y1, double x2, double y2, const char *class);
/* At least 1.5 wide, so that short events stay visible; tip (NULL = none) is a tooltip. */
struct svg_box {
    double x, y, width, height;
};
void svg_rect(struct svg *g, const struct svg_box *box, const char *class, const char *tip);

/* A path from points in tenths of a pixel, written as differences. */
struct svg_path {
    struct svg *g;
    int64_t x, y;
    int started;
};
void svg_path_open(struct svg_path *p, struct svg *g, const char *class);
void svg_path_move(struct svg_path *p, double x, double y);
void svg_path_line(struct svg_path *p, double x, double y);
void svg_path_shut(struct svg_path *p); /* back to the last move */
void svg_path_close(struct svg_path *p);

/* The step of 1, 2 or 5 times a power of ten that divides range into at most `most` parts. */
double svg_step(double range, int most);
/* The same for seconds, with steps of the clock. */
double svg_time_step(double seconds, int most);
/* "1:02:03", "12:30", or "1:02:03.5" below a second's step. */
void svg_time(char *buf, unsigned long size, double seconds, double step);
