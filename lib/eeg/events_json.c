/* Event files as JSON, for programs: the recording, and an array of its events. Declared in events.h. */

#include "base/json.h"
#include "eeg/events_formats.h"
#include "formats/text.h"

static const size_t MAX_BYTES = (size_t)256 << 20;

void events_put_json(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out) {
    struct json_writer w = json_to(out);
    json_begin_object(&w, NULL);
    json_put_str(&w, "recording", header->record_name);
    json_put_str(&w, "start", header->start_text);
    json_put_f64(&w, "duration_s", header->recording_s);
    json_begin_array(&w, "events");
    for (size_t i = 0; i < n_runs; i++) {
        json_begin_object(&w, NULL);
        JSON_MEMBERS(&w, runs[i], onset_s, end_s);
        json_put_str(&w, "type", *runs[i].code ? runs[i].code : "sz");
        json_put_f64(&w, "confidence", runs[i].confidence);
        if (*runs[i].channels) {
            json_put_str(&w, "channels", runs[i].channels);
            json_put_str(&w, "side", side_of(runs[i].channels));
        }
        json_end(&w, '}');
    }
    json_end(&w, ']');
    json_end(&w, '}');
    str_puts(out, "\n");
}

static int read_event(const struct json *item, size_t i, struct events_file *events, const char *path, struct err *err) {
    struct event_row row = {.onset_s = json_f64(json_get(item, "onset_s"), NAN),
                            .end_s = json_f64(json_get(item, "end_s"), NAN),
                            .confidence = json_f64(json_get(item, "confidence"), NAN)};
    const char *type = json_str(json_get(item, "type"), "");
    row.duration_s = row.end_s - row.onset_s;
    str_copy(row.type, sizeof row.type, type);
    events_take_channels(&row, json_str(json_get(item, "channels"), ""));
    if (*type && !events_is_seizure(type) && isnan(row.duration_s))
        return events_skip(events, &row, path, err);
    if (!(row.duration_s >= 0) || fabs(row.onset_s) > EVENTS_MAX_SECONDS || row.end_s > EVENTS_MAX_SECONDS || !*type)
        return err_set(err, ERR_INVALID, "%s: event %zu: expected onset_s, end_s (not before it) and type", path, i + 1);
    return events_add(events, &row, path, err);
}

static int read_events(const struct json *list, struct events_file *events, const char *path, struct err *err) {
    if (json_kind(list) != JSON_KIND_ARRAY)
        return err_set(err, ERR_INVALID, "%s: expected an object with the array 'events'", path);
    for (size_t i = 0; i < json_count(list); i++) {
        int rc = read_event(json_at(list, i), i, events, path, err);
        if (rc)
            return rc;
    }
    return 0;
}

int events_read_json(const char *path, struct events_file *events, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    OWNED_POINTER(json_free) struct json *json = NULL;
    size_t len;
    int rc;
    if ((rc = text_read(path, MAX_BYTES, &text, &len, err)) || (rc = json_parse(text, len, path, &json, err)))
        return rc;
    double recording_s = json_f64(json_get(json, "duration_s"), NAN);
    if (recording_s >= 0 && recording_s <= EVENTS_MAX_SECONDS)
        events->recording_s = recording_s;
    str_copy(events->start_text, sizeof events->start_text, json_str(json_get(json, "start"), "n/a"));
    return read_events(json_get(json, "events"), events, path, err);
}
