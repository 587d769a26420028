// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A log file has generations: the present one, under the name that people know,
// and those that were rotated away, under names derived from it. What derives
// which names:
//
//	kube-log-runner   kubelet-20060102-150405.log          (local time)
//	lumberjack        agent-2006-01-02T15-04-05.000.log[.gz]
//	kubelet, for containers  0.log.20060102-150405[.gz]
//	logrotate         x.log.1[.gz], x.log-20060102[.gz]
//	our own agent     containerd-20060102-150405.log       (UTC)
//	klog              wicd.exe.HOST.USER.log.INFO.20060102-150405.PID, where the
//	                  known name wicd.exe.INFO is a link to the present one
type rotationName struct {
	name string
	// stamp is the time in the name, zero when it has a number.
	stamp time.Time
	// number counts rotations since: 1 is the youngest; 0 when it has a stamp.
	number int
	gzip   bool
}

// stamps are the times in names of rotated files. A fraction may follow the seconds.
var stamps = [...]string{
	"20060102", "20060102-150405", "20060102T150405", "20060102-15-04-05", "20060102T15-04-05",
	"2006-01-02", "2006-01-02-150405", "2006-01-02T150405", "2006-01-02-15-04-05", "2006-01-02T15-04-05",
}

var klogLink = regexp.MustCompile(`^(.+)\.(INFO|WARNING|ERROR|FATAL)$`)

// parseRotation says whether name is a rotated generation of the file base.
func parseRotation(base, name string) (rotationName, bool) {
	r := rotationName{name: name}
	rest, gz := strings.CutSuffix(name, ".gz")
	r.gzip = gz
	if rest == base || rest == "" {
		return r, false
	}
	if m := klogLink.FindStringSubmatch(base); m != nil {
		after, ok := strings.CutPrefix(rest, m[1]+".")
		_, suffix, found := strings.Cut(after, ".log."+m[2]+".")
		if !ok || !found {
			return r, false
		}
		stamp, _, _ := strings.Cut(suffix, ".") // the ID of the process follows
		return withStamp(r, "."+stamp)
	}
	if after, ok := strings.CutPrefix(rest, base); ok {
		if n, ok := strings.CutPrefix(after, "."); ok && len(n) <= 4 {
			if number, err := strconv.Atoi(n); err == nil && number > 0 {
				r.number = number
				return r, true
			}
		}
		return withStamp(r, after)
	}
	ext := path.Ext(base)
	middle, isRotated := strings.CutSuffix(rest, ext)
	after, ok := strings.CutPrefix(middle, strings.TrimSuffix(base, ext))
	if !isRotated || !ok {
		return r, false
	}
	return withStamp(r, after)
}

// withStamp adds the time in a name. Stamps are compared with each other only, so the zone
// does not matter.
func withStamp(r rotationName, suffix string) (rotationName, bool) {
	if suffix == "" || suffix[0] != '-' && suffix[0] != '.' {
		return r, false
	}
	for _, layout := range stamps {
		if t, err := time.Parse(layout, suffix[1:]); err == nil {
			r.stamp = t
			return r, true
		}
	}
	return r, false
}

// maxRotated is how many rotated files of a log are read at most. Each is opened whenever the log is listed.
const maxRotated = 500

// newest leaves out rotated files beyond maxRotated, the oldest by their names: only what is opened has another
// time. Stamps and numbers are not compared with each other.
func newest(names []rotationName) []rotationName {
	order := slices.SortedFunc(slices.Values(names), func(a, b rotationName) int {
		return cmp.Or(b.stamp.Compare(a.stamp), cmp.Compare(a.number, b.number), strings.Compare(b.name, a.name))
	})
	stamped, numbered, old := 0, 0, map[string]bool{}
	for _, r := range order {
		switch {
		case !r.stamp.IsZero():
			stamped++
			old[r.name] = stamped > maxRotated
		case r.number > 0:
			numbered++
			old[r.name] = numbered > maxRotated
		}
	}
	return slices.DeleteFunc(names, func(r rotationName) bool { return old[r.name] })
}

// generation is one file of a log.
type generation struct {
	rotationName
	id    fileID
	size  int64
	mtime time.Time
	// current marks the file that has the log's own name.
	current bool
}

// sortGenerations puts the oldest first and the current one last. Names order
// rotated files when all are of one kind; otherwise their modification times do,
// which compression may have changed.
func sortGenerations(list []generation) {
	stamps, numbers := true, true
	for i := range list {
		if !list[i].current {
			stamps = stamps && !list[i].stamp.IsZero()
			numbers = numbers && list[i].number > 0
		}
	}
	slices.SortStableFunc(list, func(a, b generation) int {
		order := 0
		switch {
		case a.current != b.current:
			if a.current {
				return 1
			}
			return -1
		case stamps:
			order = a.stamp.Compare(b.stamp)
		case numbers:
			order = cmp.Compare(b.number, a.number)
		}
		return cmp.Or(order, a.mtime.Compare(b.mtime), strings.Compare(a.name, b.name))
	})
}
