/* interrupt: lets a command clean up after Ctrl-C (SIGINT) or SIGTERM. The first signal sets a flag, the second one kills the
 * process. One use per process. */
#pragma once
#include "base/base.h"

void interrupt_catch(void);
bool interrupt_seen(void);
/* In place of interrupt_catch, for a command that only watches: the first signal prints the text and ends the process with the exit
 * code below. The text must outlive the command. */
void interrupt_detach(const char *text);
/* The exit code of a shell for the signal that was seen: 130 after Ctrl-C. */
int interrupt_exit(void);
