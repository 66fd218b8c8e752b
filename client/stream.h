/* stream: what stream.c (one stream, waiting) and loop.c (many streams, callbacks) share. */
#pragma once
#include "client/link.h"

struct brr_stream {
    struct link link;
    struct brr_stream_info info;
    int n_channels;
    int64_t pushed;
    size_t buffer_bytes;
    /* Of a loop: */
    struct brr_stream *before, *after; /* neighbours in its list */
    struct brr_stream **list;          /* NULL: no loop */
    int64_t *due_ms;                   /* of the loop: when its first stream is due, or before */
    struct brr_handler handler;
    size_t room_wanted;            /* bytes of the push that found no room */
    int64_t open_deadline_ms;      /* 0 = Opened has come */
    int64_t received, consumed;    /* as the handler heard them last */
    bool busy, close_wanted, over; /* over: the handler heard the end */
};

/* Allocates a stream and its Open; the caller starts the link. */
int stream_new(brr_client *client, const struct brr_stream_config *config, brr_stream **ret, Brr__V1__Open *open,
               struct brr_error *err);
/* Fills the info from the daemon's first answer. */
void stream_learn(brr_stream *s);
bool stream_has_room(const brr_stream *s, size_t need);
int64_t stream_open_timeout_ms(const struct brr_stream_config *config);
/* Frees a stream that is in no list. */
void stream_free(brr_stream *s);
