// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

// Package etcd is where the objects of the API server are kept when no etcd
// cluster is given: a single etcd member in the server's own process. It must not
// import any other package of this module but volume.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// Embedded is a running etcd member. It listens on a Unix socket that only the
// user of this process may open, so it needs no credentials of its own. Every
// acknowledged write is on disk (fsync), so the process may be killed at any time.
type Embedded struct {
	etcd  *embed.Etcd
	dir   string
	quota int64 // in bytes
	// crowdedAt is the revision at which it was full of objects; as long as none is deleted, it still is. For [Embedded.makeSpace] only.
	crowdedAt int64
	lock      *os.File
	endpoint  string
	// temporary is a directory with the sockets, empty if they are in the data directory.
	temporary string

	// cancel ends background, which has what the member does by itself.
	cancel     context.CancelFunc
	background sync.WaitGroup
}

// StartEmbedded starts a member that keeps its data in dir, which is created when
// missing, and returns once it answers. It fails when ctx is done before, and when
// another process uses dir. A member that gets full takes writes again soon after. ctx is for the
// start only; see Close.
func StartEmbedded(ctx context.Context, dir string) (*Embedded, error) {
	return startEmbedded(ctx, dir, quota, time.Tick(spaceInterval))
}

// startEmbedded looks at each tick whether the member is full.
func startEmbedded(ctx context.Context, dir string, quota int64, tick <-chan time.Time) (*Embedded, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	e := &Embedded{lock: lock, dir: dir, quota: quota, cancel: func() {}}
	if err = removeLeftovers(dir); err == nil {
		err = e.start(ctx)
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	e.makeSpace(ctx)
	e.shrink(ctx)
	var life context.Context
	life, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.background.Go(func() { e.keepSpace(life, tick) })
	return e, nil
}

func (e *Embedded) start(ctx context.Context) error {
	dir := e.dir
	sockets, err := e.socketsFor(dir)
	if err != nil {
		return err
	}
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "client.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "peer.sock")}
	e.endpoint = client.String()

	config := embed.NewConfig()
	config.Dir = dir
	config.Name = "windows-apiserver"
	config.QuotaBackendBytes = e.quota
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	// By default the last 5,000 changes, each with the whole object, stay in memory for followers, which this member never has, and up to 10,000
	// are read into it at the start. With these it is some hundred. Zero would be the default.
	config.SnapshotCatchUpEntries, config.SnapshotCount = 100, 500
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// etcd reports each of its steps as information; what matters to the operator
	// of this server is what goes wrong.
	config.LogLevel = "warn"

	if e.etcd, err = embed.StartEtcd(config); err != nil {
		return fmt.Errorf("starting the embedded etcd on %s: %w", dir, err)
	}
	select {
	case <-e.etcd.Server.ReadyNotify():
		return nil
	case err := <-e.etcd.Err():
		return fmt.Errorf("starting the embedded etcd on %s: %w", dir, err)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the embedded etcd on %s: %w", dir, ctx.Err())
	}
}

// maxSocketDir is how long the path of a directory with sockets may be: Linux has
// room for 107 bytes in the address of a socket, see unix(7).
const maxSocketDir = 107 - len("/client.sock")

// socketsFor returns the directory for the sockets, which only this user may enter:
// one in the data directory, where those of a process that was killed are replaced, or
// a temporary one if that path would be too long.
func (e *Embedded) socketsFor(dir string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(dir, "sockets"))
	if err != nil {
		return "", fmt.Errorf("finding the data directory: %w", err)
	}
	if len(dir) <= maxSocketDir {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("creating a directory for the sockets of the embedded etcd: %w", err)
		}
		// A kubelet gives the group of the pod (fsGroup) the right to write to what is on the volume. That of another user stays so.
		if err := os.Chmod(dir, 0o700); err != nil && !errors.Is(err, os.ErrPermission) { //nolint:gosec // it is a directory
			return "", fmt.Errorf("keeping others from the sockets of the embedded etcd: %w", err)
		}
		return dir, nil
	}
	if e.temporary, err = os.MkdirTemp("", "windows-apiserver-"); err != nil {
		return "", fmt.Errorf("creating a directory for the sockets of the embedded etcd: %w", err)
	}
	return e.temporary, nil
}

// Endpoints are where clients reach the member.
func (e *Embedded) Endpoints() []string { return []string{e.endpoint} }

// Err yields an error when the member fails. It never yields after Close.
func (e *Embedded) Err() <-chan error { return e.etcd.Err() }

// Close stops the member, flushes its data and lets go of the data directory.
func (e *Embedded) Close() {
	e.cancel()
	e.background.Wait()
	if e.etcd != nil {
		e.etcd.Close()
	}
	if e.temporary != "" {
		// What is left behind in a temporary directory does no harm.
		_ = os.RemoveAll(e.temporary)
	}
	// Closing the file gives up the lock.
	_ = e.lock.Close()
}

// lockDir makes sure that only one process uses dir. etcd has a lock of its own,
// but waits for it without end and without a word.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("the data directory %s is in use by another windows-apiserver: run a single replica with an embedded etcd, or several with --etcd-servers", dir)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return file, nil
}
