/* form: the fields of a form as browsers send it (application/x-www-form-urlencoded), and which of them may be used for what. Any
 * thread. */
#pragma once
#include "base/base.h"

/* Writes the first field of this name, decoded; "" when it is missing. Returns false, with "", when it does not fit into size bytes
 * or has a zero byte. */
bool form_field(const char *body, const char *name, char *ret, size_t size);
/* True for what a token may consist of: letters, digits and ._~+/=- alone, so that it can stand in a cookie. */
bool form_is_token(const char *text);
/* True for a path of this host, to which a browser may be sent: letters, digits and /-_. alone, after a single slash. */
bool form_is_own_path(const char *text);
