/* s3_object: names and one object's state, shared by the operations of store/s3.h. Any thread. */
#pragma once
#include "store/md5_batch.h"
#include "store/s3_client.h"

enum { S3_NAME_SIZE = 2 * STORE_KEY_SIZE, S3_PART_BYTES = 8 << 20 };

struct s3 {
    struct store base;
    struct s3_client *client;
    char prefix[STORE_KEY_SIZE + 1]; /* "" or "a/b/" */
    struct str identity;
    struct md5_batch *md5_batch; /* for large downloads; NULL where the processor gains nothing by it */
};

static inline struct s3 *s3_of(struct store *store) { return (struct s3 *)(void *)store; }

/* Converts a store key to a bucket key. RANGE when it is longer than S3 allows. */
int s3_name(const struct s3 *s3, const char *key, char ret[S3_NAME_SIZE], struct err *err);

/* The ETag without its quotes, truncated to STORE_TAG_SIZE. */
void s3_tag(const char *etag, char tag[STORE_TAG_SIZE]);

struct s3_head {
    int64_t size_bytes, mtime_ns;
    char etag[80]; /* with its quotes */
    /* of the content, as stated by the server or the uploader, else "" */
    char md5[33], sha256[DIGEST_HEX_SIZE];
    bool has_crc;
    enum crc_kind crc_kind;
    uint64_t crc;
};
/* watch may be NULL; its progress is called while waiting for the server. */
int s3_head(const struct s3 *s3, const char *name, const struct store_watch *watch, struct s3_head *ret, struct err *err);
/* True if verifying the object uses the store's md5_batch; the verifying thread must enter it first. */
bool s3_in_batch(const struct s3 *s3, const struct s3_head *head);
/* DATA_LOSS: the file at path does not have the SHA-256 of head or, without SHA-256 and CRC, its MD5. */
int s3_verify(const struct s3 *s3, const char *path, const char *object, const struct s3_head *head, struct err *err);
/* Sets the DATA_LOSS error of a received object whose checksum is not the expected one. */
int s3_untrue(const char *object, const char *kind, const char *got, const char *want, struct err *err);

/* Operations in files of their own. */
int s3_get(struct store *store, const char *key, const char *path, const struct store_watch *watch, struct err *err);
/* store_ops.get_beside: at most so many bytes has the journal of a get. */
int64_t s3_get_beside(int64_t bytes);
int s3_put(struct store *store, const char *path, const char *key, const struct store_watch *watch, struct err *err);
