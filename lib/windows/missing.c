#include "windows/missing.h"

#include "base/counted.h"

int missing_describe(const struct missing_channel *channels, int n, int64_t samples, char *text, size_t size, struct err *err) {
    int64_t sum = 0;
    int some = 0, most = 0;
    for (int i = 0; i < n; i++) {
        sum += *channels[i].n;
        some += *channels[i].n > 0;
        most = *channels[i].n > *channels[most].n ? i : most;
    }
    text[0] = '\0';
    if (!sum)
        return 0;
    const double percent = samples ? 100.0 * (double)*channels[most].n / (double)samples : 0;
    if (2 * *channels[most].n > samples)
        return err_set(
            err, ERR_INVALID,
            "%.0f %% of the samples of %s are no numbers (NaN or infinite); expected at most half: leave the recording out, "
            "or take a model without this channel",
            percent, channels[most].name);
    str_format(text, size, "%lld samples of %s are no numbers: the last number is held in their place (%s: %.2g %%)",
               (long long)sum, counted(some, "channel").text, channels[most].name, percent);
    return 0;
}
