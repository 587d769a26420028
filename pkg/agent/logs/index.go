// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"text/tabwriter"
	"time"
)

// maxIndexFiles bounds the index. A log directory has hundreds of files; thousands
// are an accident, and would hide the others.
const maxIndexFiles = 10_000

// Kinds of an [IndexEntry].
const (
	KindService = "service"
	KindFile    = "file"
	KindChannel = "channel"
)

// Index is what a request without a query returns with OutputJSON.
type Index struct {
	Entries []IndexEntry `json:"entries"`
	// Truncated says that there are more files than could be listed.
	Truncated bool `json:"truncated,omitempty"`
	// Notices report what could not be listed.
	Notices []string `json:"notices,omitempty"`
}

// IndexEntry is one source. Name can be used as a query as it is.
type IndexEntry struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Path is the file of a service, relative to the log root; empty when the
	// service has not logged yet.
	Path string `json:"path,omitempty"`
	// Size is in bytes, without rotated files.
	Size     int64      `json:"size"`
	Modified *time.Time `json:"modified,omitempty"`
}

func newIndex(ctx context.Context, host Host) (*Index, error) {
	root := logRoot{host.LogRoot()}
	ix := &Index{Entries: []IndexEntry{}}
	for _, s := range wellKnownServices() {
		e := IndexEntry{Name: s.name, Kind: KindService}
		files, _ := serviceFiles(s.name)
		for _, name := range files {
			if g, err := newSeries(root, name).present(); err == nil {
				e.Path, e.Size, e.Modified = name, g.size, timeRef(g.mtime)
				break
			}
		}
		ix.Entries = append(ix.Entries, e)
	}
	if err := ix.addFiles(ctx, root, "."); err != nil {
		return nil, err
	}
	ix.addChannels(ctx, host)
	return ix, nil
}

// addFiles walks the directory. Links to directories are not entered, so that the
// walk ends.
func (ix *Index) addFiles(ctx context.Context, root logRoot, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	infos, err := root.describe(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			ix.Notices = append(ix.Notices, fmt.Sprintf("listing %s: %v", dir, err))
		}
		return nil
	}
	for _, info := range infos {
		if len(ix.Entries) >= maxIndexFiles {
			ix.Truncated = true
			return nil
		}
		name := path.Join(dir, info.Name())
		if info.IsDir() {
			if err := ix.addFiles(ctx, root, name); err != nil {
				return err
			}
			continue
		}
		size, modified, link := info.Size(), info.ModTime(), info.Mode()&fs.ModeSymlink != 0
		switch {
		case !link && !info.Mode().IsRegular():
			continue
		case link:
			g, err := newSeries(root, name).stat(info.Name())
			if err != nil {
				// Leads out of the directory, or nowhere.
				continue
			}
			size, modified = g.size, g.mtime
		}
		query := name
		if dir == "." && !serviceName.MatchString(name) {
			query = "./" + name
		}
		ix.Entries = append(ix.Entries, IndexEntry{Name: query, Kind: KindFile, Size: size, Modified: timeRef(modified)})
	}
	return nil
}

func (ix *Index) addChannels(ctx context.Context, host Host) {
	log, err := host.EventLog()
	if errors.Is(err, ErrNoEventLog) {
		return
	}
	var channels []EventChannel
	if err == nil {
		channels, err = log.Channels(ctx)
	}
	if err != nil {
		ix.Notices = append(ix.Notices, noEventLog(err).Message)
		return
	}
	for _, c := range channels {
		e := IndexEntry{Name: channelPrefix + c.Name, Kind: KindChannel, Size: c.Size}
		if !c.Modified.IsZero() {
			e.Modified = timeRef(c.Modified)
		}
		ix.Entries = append(ix.Entries, e)
	}
}

func timeRef(t time.Time) *time.Time {
	t = t.UTC().Truncate(time.Second)
	return &t
}

func (ix *Index) write(w io.Writer, asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(w).Encode(ix); err != nil {
			return fmt.Errorf("writing the index: %w", err)
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	row := func(cells ...any) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", cells...) //nolint:errcheck // Flush reports it
	}
	row("NAME", "KIND", "SIZE", "MODIFIED")
	for _, e := range ix.Entries {
		size, modified := strconv.FormatInt(e.Size, 10), "-"
		if e.Modified != nil {
			modified = e.Modified.Format(time.RFC3339)
		} else if e.Kind == KindService {
			size = "-"
		}
		row(e.Name, e.Kind, size, modified)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	if ix.Truncated {
		ix.Notices = append(ix.Notices, fmt.Sprintf("there are more than %d files", maxIndexFiles))
	}
	for _, n := range ix.Notices {
		if _, err := fmt.Fprintf(w, "# %s\n", n); err != nil {
			return fmt.Errorf("writing the index: %w", err)
		}
	}
	return nil
}
