// Foundation.h: the declarations of Apple's Foundation that metal_driver.mm uses, so that a
// compiler without Apple's headers can check that file. Not executed.
#pragma once
#include <cstddef>
#include <cstdint>

using BOOL = bool;
using NSUInteger = unsigned long;
using NSInteger = long;
using CFTypeRef = const void*;
using CFTimeInterval = double;
#define nil nullptr
#define YES true
#define NO false

enum : NSUInteger { NSUTF8StringEncoding = 4 };
struct NSRange {
  NSUInteger location, length;
};
inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) { return {location, length}; }

@protocol NSObject
@end
__attribute__((objc_root_class))
@interface NSObject<NSObject>
+ (instancetype)alloc;
- (instancetype)init;
@end

@interface NSString : NSObject
@property(readonly) const char* UTF8String;
- (instancetype)initWithBytes:(const void*)bytes
                       length:(NSUInteger)length
                     encoding:(NSUInteger)encoding;
@end

@interface NSError : NSObject
@property(readonly, copy) NSString* localizedDescription;
@end

@interface NSArray<__covariant ObjectType> : NSObject
+ (instancetype)arrayWithObjects:(const ObjectType[])objects count:(NSUInteger)count;
- (NSArray<ObjectType>*)arrayByAddingObject:(ObjectType)object;
@end

extern "C" id CFBridgingRelease(CFTypeRef __attribute__((cf_consumed)) object);

@protocol OS_dispatch_data <NSObject>
@end
using dispatch_data_t = NSObject<OS_dispatch_data>*;
using dispatch_block_t = void (^)(void);
extern "C" dispatch_data_t dispatch_data_create(const void* buffer, size_t size, NSObject* queue,
                                                dispatch_block_t destructor);
#define DISPATCH_DATA_DESTRUCTOR_DEFAULT nil
