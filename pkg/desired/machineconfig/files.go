// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package machineconfig

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/vincent-petithory/dataurl"
)

// maxFile is the greatest size of a file, in bytes. A MachineConfig itself is smaller, as etcd takes
// no more than 1.5 MiB; only a compressed file can be greater.
const maxFile = 4 << 20

// files are those of a configuration, by path.
type files map[string]types.Resource

// filesOf returns the files of a configuration.
func filesOf(config types.Config) files {
	all := files{}
	for i := range config.Storage.Files {
		f := &config.Storage.Files[i]
		all[f.Path] = f.Contents
	}
	return all
}

// read returns the content of a file. One that is not there is an error.
func (f files) read(path string) ([]byte, error) {
	resource, ok := f[path]
	if !ok {
		return nil, fmt.Errorf("there is no file %s", path)
	}
	content, err := decode(resource)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", path, err)
	}
	return content, nil
}

// decode returns what a resource contains. The Machine Config Operator writes everything into
// the configuration itself, by data URLs.
func decode(resource types.Resource) ([]byte, error) {
	if resource.Source == nil || *resource.Source == "" {
		return nil, nil
	}
	url, err := dataurl.DecodeString(*resource.Source)
	if err != nil {
		return nil, fmt.Errorf("its source is not a data URL: %w", err)
	}
	if resource.Compression == nil || *resource.Compression == "" {
		return url.Data, nil
	}
	// Ignition knows no other compression, and refuses it.
	reader, err := gzip.NewReader(bytes.NewReader(url.Data))
	if err != nil {
		return nil, fmt.Errorf("it is not compressed by gzip: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(reader, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("decompress it: %w", err)
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return content, nil
}
