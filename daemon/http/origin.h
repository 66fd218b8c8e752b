/* origin: whether a browser asks for this daemon under a name of its own, and whether a form comes from one of its pages. A page of
 * another site can make a browser ask any address under the site's name (DNS rebinding), and send forms to it. Any thread. */
#pragma once
#include "base/base.h"

/* The header Host is an address, localhost, this machine's name or one of the n names, with or without a port; NULL is not. */
bool origin_host_fits(const char *host, const char *const *names, int n);
/* A form was sent by a page of this daemon, or by no page: the header Sec-Fetch-Site, else Origin, else neither. */
bool origin_is_own(const char *fetch_site, const char *origin, const char *host, bool tls);
