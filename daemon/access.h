/* access: the daemon's certificate, tokens and client CAs, and how they follow their files on SIGHUP or when one of them changes.
 * The tokens, the client CAs, and the certificate with its key are read by three threads (daemon/reload.h), since a revoked token
 * must not wait for the volume of the certificate. Loop thread, which waits for no file after access_open. */
#pragma once
#include "daemon/config.h"
#include "daemon/reload.h"
#include "daemon/rpc/auth.h"
#include "daemon/rpc/tls.h"

struct http;
struct access {
    struct auth *auth;
    struct tls *tls; /* NULL: no certificate is configured */
    struct metrics *metrics;
    struct reload *tokens, *authorities, *certificate; /* NULL: none are configured */
    unsigned char tokens_digest[TOKEN_DIGEST];         /* of the file of tokens as it was read last */
    int64_t tokens_since_ms, tokens_due_ms; /* when it was first read so; when it is read again, 0 = not before it changes */
};

/* Reads every file, on the calling thread. */
int access_open(struct access *a, const struct config *config, struct metrics *metrics, struct err *err);
/* Starts the threads. wake(ctx) is called when access_take has something to do, until access_close. */
int access_start(struct access *a, mailbox_wake_fn *wake, void *ctx, struct err *err);
/* Has every file read again; returns at once. */
void access_reload(struct access *a);
/* Once a second: reads the tokens again when lines have vanished and the file should have settled. */
void access_tick(struct access *a);
/* Uses what was read, and logs it; http may be NULL. On errors the previous version stays in use. */
void access_take(struct access *a, struct http *http);
/* Ends the threads as reload_stop does, then frees everything. */
void access_close(struct access *a);
