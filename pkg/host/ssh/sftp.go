// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package ssh

import (
	"context"
	"errors"
	"fmt"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

var errNoSFTP = errors.New("the host has no SFTP subsystem")

// SFTP is a file transfer session. Several requests are kept in flight, so that transfers do not
// wait a round trip for each; use ReadFrom and WriteTo of its files to benefit. The library
// ends a session in which the server sends a packet of more than 256 KiB, or one that was not
// requested; so what a server can have us keep is bounded by our requests.
type SFTP struct {
	*sftp.Client
	s *stream
}

// SFTP opens a file transfer session. It uses one session until it is closed, or ctx
// ends; then its calls fail.
func (p *Pool) SFTP(ctx context.Context, t Target) (*SFTP, error) {
	s, err := p.openStream(ctx, t, sessionChannel)
	if err != nil {
		return nil, err
	}
	if err := s.request(ctx, "subsystem", ssh.Marshal(struct{ Name string }{"sftp"}), LayerSession, errNoSFTP); err != nil {
		s.closeByCaller()
		return nil, err
	}
	client, err := sftp.NewClientPipe(s.stdout, sftpInput{s},
		sftp.UseConcurrentReads(true), sftp.UseConcurrentWrites(true))
	if err != nil {
		s.closeByCaller()
		if ctx.Err() != nil {
			return nil, contextError(ctx, LayerSession, t.Endpoint())
		}
		return nil, &Error{Layer: LayerSession, Reason: ReasonConnectionLost, Address: t.Endpoint(),
			Err: fmt.Errorf("starting SFTP: %w", err)}
	}
	return &SFTP{Client: client, s: s}, nil
}

// Close ends the session and gives it back. Files that are open stay as they are. It may
// be called more than once. The error is always nil.
func (f *SFTP) Close() error {
	f.s.closeByCaller()
	_ = f.Client.Close() // only reports that the session is over
	return nil
}

// sftpInput ends the whole session when the client closes its half, for which it would
// otherwise wait without a limit.
type sftpInput struct{ s *stream }

func (i sftpInput) Write(b []byte) (int, error) { return i.s.stdin.Write(b) }

func (i sftpInput) Close() error {
	i.s.closeByCaller()
	return nil
}
