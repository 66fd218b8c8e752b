/* mail: one text as an e-mail, handed to a mail server by SMTP. Any thread; the caller waits for the server's answer. */
#pragma once

#include "base/base.h"

/* Addresses that the server refused while it took the mail for others: "ADDRESS: REPLY; …", "" = none, the end cut. */
enum { MAIL_REFUSED_SIZE = 512 };

struct mail {
    const char *url;             /* smtps://HOST[:PORT], or smtp://HOST[:PORT], which begins TLS with STARTTLS */
    const char *name;            /* of the server in errors; NULL = its url */
    const char *ca;              /* the CAs that the server's certificate may have, as PEM text; NULL = those that libcurl finds */
    const char *user, *password; /* NULL: without */
    const char *from;            /* an address */
    const char *const *to;       /* addresses, and NULL behind them */
    const char *id;              /* of the Message-ID, the same for each try */
    const char *text;            /* UTF-8; its first line is the subject */
    int64_t sent_ms;             /* its date, Unix time */
    int64_t timeout_ms;          /* of the whole transfer */
    bool all;                    /* each address must be accepted; false: one of them */
    const atomic_bool *stop;     /* ends the transfer early; may be NULL */
};
/* Nothing is sent in the clear but to a server on this machine (127.0.0.1, localhost) without `ca`. Errors: INVALID when the server
 * refused it for good (a reply of 5xx), else UNAVAILABLE. */
int mail_send(const struct mail *m, char ret_refused[MAIL_REFUSED_SIZE], struct err *err);
/* True for one address: NAME@DOMAIN without spaces, brackets and control characters. */
bool mail_is_address(const char *text);
