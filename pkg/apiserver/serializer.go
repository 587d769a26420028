// SPDX-License-Identifier: Apache-2.0
// Copyright The Windows Instance API Authors.

package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// withoutProtobuf offers what our types can be encoded in. They have no protobuf
// form, and a client that prefers it but takes JSON, too, would get an error instead
// of JSON if it were on offer. The namespace controller is one: no namespace of the
// cluster could be deleted any more.
type withoutProtobuf struct {
	serializer.CodecFactory
}

// SupportedMediaTypes implements [runtime.NegotiatedSerializer].
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.CodecFactory.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}
