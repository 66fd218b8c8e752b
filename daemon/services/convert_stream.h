/* convert_stream: what streams report as messages, for the client of a stream and for those who watch over it. Loop thread. */
#pragma once
#include "brr/v1/stream.pb-c.h"
#include "daemon/live/session.h"

/* A list of messages that borrows from events; stream_events_done frees it. */
struct stream_events {
    Brr__V1__Event *items, **list;
    size_t n;
};
/* False when out of memory: the list is empty. */
bool stream_events(const struct event *events, int n, struct stream_events *ret);
void stream_events_done(struct stream_events *events);

/* What is wrong with a signal, as a message whose lists are *ret_channels, which the caller frees. *ret_any: false = all of its
 * fields are at their defaults. False when out of memory. */
bool stream_quality(const struct quality_report *from, double measured_rate_hz, Brr__V1__Quality *q, int32_t **ret_channels,
                    bool *ret_any);

/* The message of a RESULT, ALARM or PROVISIONAL; borrows from the report. stream_message_done afterwards. */
struct stream_message {
    Brr__V1__Result result;
    Brr__V1__Alarm alarm;
    Brr__V1__Provisional provisional;
    Brr__V1__Quality quality;
    int32_t *channels; /* of the lists in quality */
    struct stream_events events;
};
/* ret must stay where it is: its parts point to one another. False when out of memory: a part is missing, and the message must not
 * be sent. */
bool stream_message(const struct live_report *r, struct stream_message *ret);
void stream_message_done(struct stream_message *m);
