/* s3_client: one bucket of an S3 server: signed requests, retries where they help, readable errors. Internal to store/s3.h.
 * Thread-safe; one call belongs to one thread. */
#pragma once
#include "base/arena.h"
#include "store/digest.h"
#include "store/fetch.h"
#include "store/sigv4.h"
#include "store/store.h"

enum { S3_CONNECTIONS = 16, S3_MAX_TRIES = 8, S3_MAX_QUERY = 8 };

struct s3_client;
int s3_client_open(const struct store_config *config, struct s3_client **ret, struct err *err);
void s3_client_close(struct s3_client *c); /* takes NULL */
const char *s3_client_bucket(const struct s3_client *c);
/* Scheme, host and bucket: two stores with the same identity are the same store. */
void s3_client_identity(const struct s3_client *c, struct str *out);

enum s3_state { S3_WAITING, S3_FLYING, S3_ENDED };

/* One request including its retries. Set the request fields (all others zero), then run it, or step it until it ends. */
struct s3_call {
    const char *method, *key; /* key "" = the bucket itself */
    struct sigv4_pair query[S3_MAX_QUERY];
    int n_query;
    int64_t first, length; /* range of a GET; length 0 = none */
    int64_t total;         /* total size that Content-Range must state; 0 = any */
    bool short_ok;         /* the range may reach past the end */
    const char *if_match;  /* ETag with its quotes; the answer must have the same */
    const void *body;
    size_t body_len;
    int stall_s; /* 0 = the store's */
    void *buf;   /* destination of the answer: memory, or fd at offset; cap bytes */
    int fd;
    int64_t offset;
    size_t cap;
    const char *meta_sha256; /* recorded with a new object; NULL = none */
    bool crc;                /* compute the answer's checksum of crc_kind in sum */
    enum crc_kind crc_kind;
    uint64_t sum;
    struct fetch_request fetch; /* the newest attempt and its answer */
    int tries;
    /* private to the client */
    enum s3_state state;
    int64_t next_ms;
    bool region_tried, skew_tried, key_tried;
    unsigned credentials_serial;
    struct arena memory;
};
/* Cancels the transfer in progress and frees the call. Needed after every call. */
void s3_call_done(struct s3_client *c, struct s3_call *call);
/* Runs the call to its end; watch (may be NULL) may cancel it: CANCELLED. */
int s3_call_run(struct s3_client *c, struct s3_call *call, const struct store_watch *watch, struct err *err);

/* Calls that run side by side, each place taking the next call when its last one has succeeded. */
struct s3_batch {
    struct s3_call *calls; /* (n), n ≤ S3_CONNECTIONS */
    int n;
    void *ctx;
    int (*next)(void *ctx, int i, bool *ret_more, struct err *err); /* sets up calls[i]; *ret_more false when no call remains */
    int (*ended)(void *ctx, int i, struct err *err);                /* calls[i] succeeded: takes its result and ends it */
    const struct store_watch *watch;
    const int64_t *done_bytes;
    int64_t size_bytes;
    const char *verb, *object; /* for the message "fetching s3://… was cancelled" */
};
/* Runs them to their end, or until the first fails or watch cancels: CANCELLED. No call is in flight afterwards. */
int s3_batch_run(struct s3_client *c, const struct s3_batch *batch, struct err *err);
