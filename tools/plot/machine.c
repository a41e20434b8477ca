/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said of where and when figures were taken. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "picture.h"

/* What /proc/cpuinfo calls it, which it does on x86; elsewhere the architecture. */
static void read_model(char *out, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	struct utsname name;
	char line[256];

	snprintf(out, size, "%s", uname(&name) == 0 ? name.machine : "unknown processor");
	while (file && fgets(line, sizeof(line), file)) {
		char *value = strncmp(line, "model name", 10) == 0 ? strstr(line, ": ") : NULL;

		if (!value)
			continue;
		value[strcspn(value, "\n")] = '\0';
		snprintf(out, size, "%s", value + 2);
		break;
	}
	if (file)
		fclose(file);
}

const char *picture_machine(void)
{
	static char text[320];
	char model[256];

	if (*text)
		return text;
	const long cores = sysconf(
		_SC_NPROCESSORS_ONLN); /* not those of this process, which may be bound to one */

	read_model(model, sizeof(model));
	snprintf(text, sizeof(text), "%s, %ld core%s", model, cores, cores == 1 ? "" : "s");
	return text;
}

const char *picture_date(void)
{
	static char text[16];
	const time_t now = time(NULL);
	struct tm day;

	if (!*text && localtime_r(&now, &day))
		strftime(text, sizeof(text), "%Y-%m-%d", &day);
	return text;
}
