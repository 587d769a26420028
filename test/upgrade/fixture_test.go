// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

//go:build linux

package upgrade

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/yaml"
)

// fixture is a directory with a cluster and its hosts.
type fixture struct {
	dir string
	clusterFile
}

// clusterFile is what cluster.yaml says.
type clusterFile struct {
	// Commit is that of the programs.
	Commit string `json:"commit"`
	// TakenAt is when the programs were stopped.
	TakenAt time.Time `json:"takenAt"`
	// Block and Port are where the API server was.
	Block netip.Prefix `json:"block"`
	Port  int          `json:"port"`
	Hosts []hostEntry  `json:"hosts"`
}

// hostEntry says how a host is reached.
type hostEntry struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Port    int    `json:"port"`
}

// hostFile is a file or a directory of a host.
type hostFile struct {
	// Path is the one below C:\, with slashes.
	Path string `json:"path"`
	// Mode is that of the file on this machine, in octal. What only administrators may read
	// has no permissions for groups and others.
	Mode string `json:"mode"`
	// Directory says that it is one.
	Directory bool `json:"directory,omitempty"`
	// Link is the name of the file in the same directory that it is a link to.
	Link string `json:"link,omitempty"`
	// Text or Data is the content.
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
}

const (
	caCertFile, caKeyFile  = "ca.crt", "ca.key"
	clientKeyFile          = "client-key.pem"
	hostKeyFile            = "host-key.pem"
	filesFile              = "files.yaml"
	settingsFile           = "settings.json"
	payloadDir, objectsDir = "payload", "etcd"
)

func readFixture(dir string) (*fixture, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f := &fixture{dir: dir}
	text, err := os.ReadFile(f.path("cluster.yaml"))
	if err == nil {
		err = yaml.UnmarshalStrict(text, &f.clusterFile)
	}
	return f, err
}

func (f *fixture) path(names ...string) string {
	return filepath.Join(append([]string{f.dir}, names...)...)
}

func (f *fixture) read(names ...string) ([]byte, error) { return os.ReadFile(f.path(names...)) }

func (f *fixture) write(content []byte, names ...string) error {
	path := f.path(names...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func (f *fixture) writeYAML(value any, names ...string) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	return f.write(text, names...)
}

// timestamp matches times as objects have them.
var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// shift moves all times of an object, so that nothing has happened since it was captured:
// deadlines of operations that run are not over.
func shift(text string, by time.Duration) string {
	return timestamp.ReplaceAllStringFunc(text, func(was string) string {
		at, err := time.Parse(time.RFC3339Nano, was)
		if err != nil {
			return was
		}
		layout := time.RFC3339
		if _, fraction, found := strings.Cut(was, "."); found {
			layout = "2006-01-02T15:04:05." + strings.Repeat("0", len(fraction)-1) + "Z07:00"
		}
		return at.Add(by).UTC().Format(layout)
	})
}

// objects are what etcd held, in JSON by keys, with times as if it were captured now.
func (f *fixture) objects() (map[string][]byte, error) {
	since := time.Since(f.TakenAt).Truncate(time.Second)
	objects := map[string][]byte{}
	root := f.path(objectsDir)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		content, err := yaml.YAMLToJSON([]byte(shift(string(text), since)))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		key, err := filepath.Rel(root, strings.TrimSuffix(path, ".yaml"))
		objects["/"+filepath.ToSlash(key)] = content
		return err
	})
	return objects, err
}

// etcdPatience is how long etcd may take for all answers.
const etcdPatience = 2 * time.Minute

func withEtcd(ctx context.Context, url string, do func(context.Context, *clientv3.Client) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, etcdPatience)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Context: ctx})
	if err != nil {
		return err
	}
	defer func() {
		if closed := client.Close(); err == nil {
			err = closed
		}
	}()
	return do(ctx, client)
}

// restoreEtcd puts objects where API servers find them.
func restoreEtcd(ctx context.Context, url string, objects map[string][]byte) error {
	return withEtcd(ctx, url, func(ctx context.Context, client *clientv3.Client) error {
		for key, content := range objects {
			if _, err := client.Put(ctx, key, string(content)); err != nil {
				return err
			}
		}
		return nil
	})
}

// restoreHost makes the files of a host in the directory of one that is in this process.
func (f *fixture) restoreHost(name, dir string) error {
	text, err := f.read("hosts", name, filesFile)
	if err != nil {
		return err
	}
	var files []hostFile
	if err := yaml.UnmarshalStrict(text, &files); err != nil {
		return err
	}
	drive := filepath.Join(dir, "drive_c")
	if err := os.MkdirAll(drive, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		if err := file.restore(drive); err != nil {
			return err
		}
	}
	settings, err := f.read("hosts", name, settingsFile)
	if err != nil {
		return err
	}
	return os.WriteFile(drive+".json", settings, 0o600)
}

func (h *hostFile) restore(drive string) error {
	path := filepath.Join(drive, filepath.FromSlash(h.Path))
	var mode fs.FileMode
	if _, err := fmt.Sscanf(h.Mode, "%o", &mode); err != nil {
		return fmt.Errorf("%s: mode %q: %w", h.Path, h.Mode, err)
	}
	var err error
	switch {
	case h.Link != "":
		return os.Symlink(filepath.Join(filepath.Dir(path), h.Link), path)
	case h.Directory:
		err = os.Mkdir(path, mode)
	default:
		err = os.WriteFile(path, append([]byte(h.Text), h.Data...), mode)
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, mode) // in spite of the umask
}

// captureHost writes what is on a host to the fixture.
func (f *fixture) captureHost(name, dir string) error {
	drive := filepath.Join(dir, "drive_c")
	var files []hostFile
	err := filepath.WalkDir(drive, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == drive {
			return err
		}
		below, err := filepath.Rel(drive, path)
		if err != nil {
			return err
		}
		file, err := captureFile(path, entry)
		if err != nil {
			return err
		}
		file.Path = filepath.ToSlash(below)
		files = append(files, file)
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.writeYAML(files, "hosts", name, filesFile); err != nil {
		return err
	}
	settings, err := os.ReadFile(drive + ".json")
	if err != nil {
		return err
	}
	return f.write(settings, "hosts", name, settingsFile)
}

// captureFile reads a file, a directory or a link of a host.
func captureFile(path string, entry fs.DirEntry) (hostFile, error) {
	info, err := entry.Info()
	if err != nil {
		return hostFile{}, err
	}
	file := hostFile{Mode: fmt.Sprintf("%03o", info.Mode().Perm()), Directory: entry.IsDir()}
	switch {
	case entry.IsDir():
		return file, nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		file.Link = filepath.Base(target)
		return file, err
	}
	content, err := os.ReadFile(path)
	if utf8.Valid(content) {
		file.Text = string(content)
	} else {
		file.Data = content
	}
	return file, err
}
