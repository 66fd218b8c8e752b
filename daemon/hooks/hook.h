/* hook: somebody to tell about alarms: a command, the receiver of a signed POST, or mailboxes. Plain data and one attempt at a
 * delivery; any thread. */
#pragma once

#include "daemon/journal/journal_entry.h"

enum { HOOKS_MAX = 16, HOOK_NAME = 64, HOOK_SECRET_BYTES = 4096, HOOK_CA_BYTES = 1 << 20 };

/* One element of alarms.hooks; texts are borrowed. */
struct hook {
    const char *name;
    const char **command;                          /* its words and NULL; or NULL */
    const char **environment;                      /* names of the daemon's variables that a command gets, and NULL; or NULL */
    const char *url, *url_file, *secret_file, *ca; /* url: or a file that holds it. ca NULL: those of the system */
    int format;                                    /* enum hook_format, of a POST or a mail */
    const char *from, **to, *user, *password_file; /* of a mail: addresses, NULL behind those of to; user NULL: no password */
    bool hide_names;                               /* of beds, callers and addresses */
    const char *bed, *model;                       /* fnmatch patterns of the client's name and of the model's */
    unsigned kinds;                                /* bits 1 << enum journal_kind */
    unsigned steps;     /* bits 1 << step of the escalation, from 1: told then, and of nothing else; 0: none */
    bool replays;       /* also alarms of replays */
    bool machine;       /* a log book or a lamp: whether it is told says nothing about people */
    int64_t timeout_ms; /* of one attempt */
};

bool hook_posts(const struct hook *h);    /* a POST or a mail; false: a command */
bool hook_url_is_secure(const char *url); /* https://, or http:// of this machine */
bool hook_url_is_mail(const char *url);   /* smtps://, or smtp:// */
bool hook_wants(const struct hook *h, const struct journal_entry *e);
/* INVALID: there is a roster, and the hook is for none of its n beds. */
int hook_check_roster(const struct hook *h, const char *const *beds, int n, struct err *err);

/* What a receiver is told, as JSON on the standard input of a command or as the body of a POST. */
struct hook_message {
    const char *id;                    /* of the delivery */
    const struct journal_entry *entry; /* what happened last */
    const char *text;                  /* the same for people */
    const char *page;                  /* the address of the daemon's pages, or NULL */
    double late_s;                     /* since the entry was made */
    const char (*covers)[33];          /* ids of earlier deliveries that this one replaces */
    int n_covers;
    bool test;
};
/* malloc'd; NULL when out of memory. */
char *hook_body(const struct hook *h, const struct hook_message *m);

/* Files that a hook needs, read before its first attempt. */
struct hook_files {
    char *secret, *url, *password,
        *ca; /* secret, url, password: NULL without a file. ca: PEM; NULL: libcurl finds those of the system */
};
int hook_read_files(const struct hook *h, struct hook_files *ret, struct err *err);
void hook_files_done(struct hook_files *files);

/* One attempt: runs the command with the body as its standard input, or sends the POST or the mail. INVALID: the receiver refuses
 * it. stop (may be NULL) ends it early. */
struct hook_attempt {
    const char *id, *body;
    const struct hook_files *files;
    bool test; /* each address of a mail must be accepted, not one */
    const atomic_bool *stop;
};
int hook_attempt(const struct hook *h, const struct hook_attempt *a, struct err *err);
