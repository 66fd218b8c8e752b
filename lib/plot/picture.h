/* picture: an SVG text as PNG or PDF. librsvg draws it; the library is opened when it is first needed, because it brings some
 * thirty others (cairo, pango, fontconfig) that nothing else here wants. Any thread. */
#pragma once

#include "base/base.h"

/* True for a path that ends in .png or .pdf; picture_known: or in .svg. In any case. */
bool picture_named(const char *path);
bool picture_known(const char *path);
/* Writes the picture in the form that the path's ending names, atomically: PNG with two pixels for each of the SVG's, PDF with its
 * lines and letters. UNSUPPORTED without librsvg (the message names the package); INVALID for what is no SVG. */
int picture_write(const char *path, const char *svg, size_t len, struct err *err);
